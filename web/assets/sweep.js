import { get } from '/assets/api.js';
import { chart, figure } from '/assets/chart.js';
import { h, into, jobLink, stateWord, table, td } from '/assets/dom.js';

const tableMost = 256;
const chosen = {};
let plot = null;

// flat lists the numbers and words of a task's output, nested ones with dots.
function flat(v, path = '', out = {}) {
  if (v && typeof v === 'object') for (const [k, x] of Object.entries(v)) flat(x, path ? path + '.' + k : k, out);
  else if (v !== undefined && v !== null) out[path || 'value'] = v;
  return out;
}

export async function group(place, j, id) {
  if (!j.tasks) return;
  const a = await get(`jobs/${encodeURIComponent(id)}/tasks`);
  const t = j.tally ?? { states: {} };
  const known = new Map((j.grid ?? []).map(x => [x.index, x.state]));
  const cells = a.tasks.map(x => [x.index, known.get(x.index) ?? x.state]);
  for (const [i, s] of known) if (!a.tasks.some(x => x.index === i)) cells.push([i, s]);
  const words = Object.entries(t.states).map(([s, c]) => `${c} ${s}`).join(', ');
  const rows = a.tasks.map(x => ({ ...x, p: flat(x.params), o: flat(x.output) }));
  const params = [...new Set(rows.flatMap(r => Object.keys(r.p)))], outs = [...new Set(rows.flatMap(r => Object.keys(r.o)))];
  const focus = document.activeElement?.dataset?.key;
  plot?.place.plot?.destroy();
  plot = null;
  into(place, h('h2', {}, 'Tasks'), h('p', {}, `${j.tasks.ended} of ${j.tasks.count} have ended`, words ? ': ' + words : ''), h('progress', { max: j.tasks.count, value: j.tasks.ended, 'aria-label': 'Tasks that have ended' }),
    h('div', { class: 'grid', role: 'list', 'aria-label': 'Tasks' }, cells.map(([i, s]) => h('span', { role: 'listitem' }, h('a', { class: s, href: `/jobs/${j.number}.${i}`, title: `${i}: ${s}`, 'aria-label': `task ${i}: ${s}` })))),
    table('Results of the tasks', ['Task', 'State', ...params, ...outs, 'Why'], rows.map(r => h('tr', {}, td(jobLink(r.id)), td(stateWord(r.state)), params.map(k => td(String(r.p[k] ?? '-'), 'num')), outs.map(k => td(String(r.o[k] ?? '-'), 'num')), td(r.reason ?? '', 'wide')))),
    j.tasks.count > tableMost ? h('p', { class: 'dim' }, `The first ${tableMost} tasks; berth status ${id} lists more.`) : '');
  against(place, rows, params, outs);
  if (focus) place.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus();
}

// against plots a result's value against a parameter that was swept.
function against(place, rows, params, outs) {
  const numeric = (key, from) => rows.some(r => Number.isFinite(Number(r[from][key])));
  const xs = params.filter(k => numeric(k, 'p')), ys = outs.filter(k => numeric(k, 'o'));
  if (!xs.length || !ys.length) return;
  const x = xs.includes(chosen.x) ? chosen.x : xs[0], y = ys.includes(chosen.y) ? chosen.y : ys[0];
  const pick = (name, label, all, now) => {
    const s = h('select', { 'data-key': name, onchange: e => { chosen[name] = e.target.value; fig.all.parentElement.remove(); against(place, rows, params, outs); place.querySelector(`[data-key="${name}"]`).focus(); } }, all.map(v => h('option', { value: v }, v)));
    s.value = now;
    return h('label', {}, label, ' ', s);
  };
  const fig = figure(`${y} against ${x}`, { 'data-chart': 'sweep' });
  plot = fig;
  place.append(h('div', {}, h('h2', {}, 'Result against parameter'), h('div', { class: 'tools' }, pick('y', 'Result', ys, y), pick('x', 'against', xs, x)), fig.all));
  const points = rows.filter(r => r.o[y] !== undefined && r.p[x] !== undefined).map(r => [Number(r.p[x]), Number(r.o[y])]).sort((a, b) => a[0] - b[0]);
  chart(fig.place, { times: points.map(p => p[0]), lines: [{ label: y, values: points.map(p => p[1]) }], linear: true });
}
