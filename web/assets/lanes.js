import { get } from '/assets/api.js';
import { colourOf, h, into, pick, plural, span } from '/assets/dom.js';

const lanesMost = 64;
const owners = ['user', 'project'];
const windows = [['15', '15 minutes'], ['60', 'an hour'], ['360', '6 hours'], ['1440', 'a day'], ['10080', 'a week']];
// What is chosen stands in the address, so that it can be kept and sent to somebody.
const asked = new URLSearchParams(location.search);
const wish = { by: owners.find(o => o === asked.get('by')) ?? 'user', minutes: windows.find(([m]) => m === asked.get('minutes'))?.[0] };
let made = null, drawn = 0;

function choose(key, v) {
  wish[key] = v;
  asked.set(key, v);
  history.replaceState(null, '', '?' + asked);
}

// read asks for the time that was chosen; at first for the last hour, or the first longer time in which a GPU was held.
async function read() {
  if (wish.minutes) return get('timeline?minutes=' + wish.minutes);
  let hour;
  for (const [minutes] of windows.slice(1)) {
    const a = await get('timeline?minutes=' + minutes);
    hour ??= a;
    if (a.segments.length) { wish.minutes = minutes; return a; }
  }
  wish.minutes = '60';
  return hour;
}

// lanes draws GPUs x time: a row for each GPU, coloured by who held it.
export async function lanes(place, machines) {
  if (!made) {
    const again = key => v => { choose(key, v); drawn = 0; lanes(place, machines); };
    const first = await read();
    made = { first, rows: h('div', { class: 'lanes', 'data-chart': 'gpus-time' }), legend: h('div', { class: 'legend' }) };
    place.append(h('h2', {}, 'GPUs over time'), h('div', { class: 'card' }, h('div', { class: 'tools filters' },
      pick('by', 'Coloured by', owners, wish.by, again('by')), pick('minutes', 'over', windows, wish.minutes, again('minutes'))), made.rows, made.legend));
  }
  if (performance.now() - drawn < 2000 && drawn) return; // it moves slowly
  drawn = performance.now();
  const a = made.first ?? await read();
  made.first = null;
  const from = Date.parse(a.from), all = Date.parse(a.now) - from;
  const held = Map.groupBy(a.segments, s => s.gpu);
  const cards = machines.flatMap(m => (m.gpus ?? []).map(g => ({ name: machines.length > 1 ? `${m.name} ${g.index}` : `GPU ${g.index}`, uuid: g.uuid })));
  for (const uuid of held.keys()) if (!cards.some(c => c.uuid === uuid)) cards.push({ name: 'gone ' + uuid.slice(0, 12), uuid });
  const shown = cards.slice(0, lanesMost);
  into(made.rows, shown.map(c => row(c, held.get(c.uuid) ?? [], from, all)), shown.length && h('div', { class: 'lane', 'aria-hidden': true }, h('span'), ticks(from, all)));
  const holders = [...new Set(a.segments.map(s => s[wish.by]))].sort();
  into(made.legend, holders.map(o => { const i = h('i'); i.style.background = colourOf(o); return h('span', {}, i, o); }),
    !holders.length && 'No GPU was held in this time.', cards.length > lanesMost && `The first ${lanesMost} of ${cards.length} GPUs; Usage adds up all.`, a.cut && 'The oldest runs are left out.');
}

function row(card, segments, from, all) {
  const by = Object.groupBy(segments, s => s[wish.by]);
  const words = Object.entries(by).map(([o, list]) => `${o} ${span(list.reduce((sum, s) => sum + Date.parse(s.end) - Date.parse(s.start), 0) / 1000)}`).join(', ');
  return h('div', { class: 'lane' }, h('span', {}, card.name), h('div', { class: 'track', role: 'img', 'aria-label': `${card.name}: ${words || 'held by nobody'}`, onclick: e => { if (e.target.dataset.of) location.href = '/jobs/' + encodeURIComponent(e.target.dataset.of); } }, segments.map(s => {
    const e = h('i', { 'data-of': s.job, class: s.kind === 'lease' ? 'lease' : undefined,
      title: `${s.user}, ${s.project}: ${s.jobs > 1 ? plural(s.jobs, 'run') + ' from ' : s.kind === 'lease' ? 'lease ' : 'job '}${s.job} ${s.name}, ${span((Date.parse(s.end) - Date.parse(s.start)) / 1000)}` });
    e.style.left = 100 * (Date.parse(s.start) - from) / all + '%';
    e.style.width = 100 * (Date.parse(s.end) - Date.parse(s.start)) / all + '%';
    e.style.background = colourOf(s[wish.by]);
    return e;
  })));
}

function ticks(from, all) {
  const f = new Intl.DateTimeFormat('en-GB', all > 36 * 3600e3 ? { day: 'numeric', month: 'short' } : { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
  return h('div', { class: 'ticks' }, [0, .2, .4, .6, .8, 1].map(part => {
    const e = h('span', {}, part === 1 ? 'now' : f.format(new Date(from + part * all)));
    e.style.left = 100 * part + '%';
    return e;
  }));
}
