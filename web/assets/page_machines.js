import { button, get } from '/assets/api.js';
import { chart, figure } from '/assets/chart.js';
import { ago, empty, gib, h, into, jobLinks, n, pick, pill, plural } from '/assets/dom.js';
import { gpuCard } from '/assets/gpus.js';

const gauges = { utilization_percent: ['Utilization', '%', 100], memory_used_mb: ['Memory', ' MiB', 0], temperature_c: ['Temperature', '°', 0], power_w: ['Power', ' W', 0] };
const made = new Map();
let gauge = 'utilization_percent';

export const page = {
  topics: () => ['machines', 'points'],
  async show(place) {
    const a = await get('machines');
    if (!a.machines.length) { made.clear(); into(place, h('div', { class: 'card empty' }, empty('No machine is there', 'berth up or worker starts one; berth doctor says what is wrong.'))); return; }
    for (const name of made.keys()) if (!a.machines.some(m => m.name === name)) { made.get(name).all.remove(); made.delete(name); }
    for (const m of a.machines) {
      if (!made.has(m.name)) add(place, m);
      draw(made.get(m.name), m, a.now);
      await past(made.get(m.name), m);
    }
  },
};

function add(place, m) {
  if (!made.size) into(place);
  const x = { head: h('div'), cards: h('div', { class: 'cards' }), fig: figure('Last day', { 'data-chart': 'machine' }) };
  x.pick = pick('gauge-' + m.name, 'Last day of', Object.entries(gauges).map(([k, g]) => [k, g[0].toLowerCase()]), gauge, v => { gauge = v; for (const y of made.values()) { y.pick.querySelector('select').value = v; past(y, y.machine); } });
  x.fig.all.hidden = true;
  into(x.fig.all.querySelector('figcaption'), h('div', { class: 'filters' }, x.pick));
  x.all = h('section', { class: 'machine', id: encodeURIComponent(m.name), 'data-machine': m.name, 'aria-label': 'Machine ' + m.name }, x.head, x.cards, x.fig.all);
  made.set(m.name, x);
  place.append(x.all);
}

const path = m => 'machines/' + encodeURIComponent(m.name);

function draw(x, m, now) {
  x.machine = m;
  into(x.head, h('header', { class: 'lead' }, h('h2', {}, m.name), pill(m.draining ? 'draining' : 'ready'), h('div', { class: 'tools' }, m.draining ? button('Undrain', path(m) + '/undrain', { key: 'drain-' + m.name })
    : button('Drain', path(m) + '/drain', { key: 'drain-' + m.name, confirm: `Drain ${m.name}? What runs is finished, nothing new is taken.`, reason: true }))),
    h('p', { class: 'facts' }, [plural(m.cpus, 'CPU'), m.memory_mb && gib(m.memory_mb), 'GPUs by ' + (m.gpu_source ?? 'nobody'), m.isolation, m.containers, 'version ' + m.version].filter(Boolean).map(t => h('span', {}, t)), h('span', {}, 'heard of ', ago(m.at, now)),
      h('span', {}, (m.running ?? []).length ? ['runs ', jobLinks(m.running)] : 'runs nothing')), (m.warnings ?? []).map(w => h('p', { class: 'warn' }, w)));
  into(x.cards, (m.gpus ?? []).map(g => {
    const out = g.state === 'quarantined', to = `${path(m)}/gpus/${encodeURIComponent(g.uuid)}/`;
    return gpuCard(m, g, false, h('div', { class: 'tools' }, out ? button('Restore', to + 'restore', { cls: 'small', key: g.uuid, confirm: `Put GPU ${g.index} of ${m.name} back into service?`, reason: true })
      : button('Quarantine', to + 'quarantine', { cls: 'small', key: g.uuid, confirm: `Take GPU ${g.index} of ${m.name} out of service? What runs on it goes on.`, reason: true })));
  }));
}

async function past(x, m) {
  const { points, ahead_seconds: ahead } = await get(path(m) + '/history');
  x.fig.all.hidden = points.length < 2;
  if (points.length < 2) return;
  const [title, unit, max] = gauges[gauge];
  const ids = [...new Set(points.flatMap(p => Object.keys(p.gpus)))].map(id => [id, points.find(p => p.gpus[id]).gpus[id].index]).sort((a, b) => a[1] - b[1]);
  chart(x.fig.place, { times: points.map(p => Date.parse(p.at) / 1000 - ahead), unit, max, lines: ids.map(([id, index]) => ({ label: 'GPU ' + index, values: points.map(p => p.gpus[id]?.[gauge] ?? null) })) });
  x.fig.place.setAttribute('aria-label', `${title} of ${m.name} over the last day: ` + ids.map(([id, index]) => `GPU ${index} now ${n(points.at(-1).gpus[id]?.[gauge])}${unit}`).join(', '));
}
