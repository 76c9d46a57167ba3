import { get } from '/assets/api.js';
import { chart, figure } from '/assets/chart.js';
import { h, into, jobLink, n, partsBar, pick, pill, ran, table, td } from '/assets/dom.js';

const tableMost = 256, gridMost = 3000, linesMost = 8;
const chosen = {};
let made = null;

// flat lists the numbers and words of a task's output, nested ones with dots.
function flat(v, path = '', out = {}) {
  if (v && typeof v === 'object') for (const [k, x] of Object.entries(v)) flat(x, path ? path + '.' + k : k, out);
  else if (v !== undefined && v !== null) out[path || 'value'] = v;
  return out;
}

// group shows the tasks of a group: how far they are, a square for each, what they were given and what came out.
export async function group(place, j, id) {
  if (!j.tasks) return;
  const a = await get(`jobs/${encodeURIComponent(id)}/tasks`);
  const known = new Map((j.grid ?? []).map(x => [x.index, x.state]));
  const cells = new Map(a.tasks.map(x => [x.index, known.get(x.index) ?? x.state]));
  for (const [i, s] of known) cells.set(i, s);
  const states = { ...j.tally?.states };
  const words = Object.entries(states).map(([s, c]) => `${n(c)} ${s.replaceAll('_', ' ')}`).join(', ');
  const rows = a.tasks.map(x => ({ ...x, p: flat(x.params), o: flat(x.output) }));
  const params = [...new Set(rows.flatMap(r => Object.keys(r.p)))], outs = [...new Set(rows.flatMap(r => Object.keys(r.o)))];
  if (!made) {
    made = { head: h('div'), plot: h('div'), list: h('div') };
    into(place, made.head, made.plot, made.list);
  }
  const squares = [...cells].sort(([x], [y]) => x - y).slice(0, gridMost);
  into(made.head, h('h2', {}, 'Tasks'), h('div', { class: 'card' }, h('p', {}, h('strong', {}, `${n(j.tasks.ended)} of ${n(j.tasks.count)}`), ' have ended', words && h('span', { class: 'dim' }, ': ' + words)), partsBar(states, j.tasks.count, `${j.tasks.ended} of ${j.tasks.count} tasks have ended`), h('p'),
    h('ul', { class: 'grid plain', 'aria-label': 'Tasks' }, squares.map(([i, s]) => h('li', {}, h('a', { class: s, href: `/jobs/${j.number}.${i}`, title: `task ${i}: ${s}`, 'aria-label': `task ${i}: ${s}` }))))));
  against(rows, params, outs);
  into(made.list, h('h2', {}, outs.length ? 'Results' : 'Each task'), table('Results of the tasks', ['Task', 'State', ...params, ...outs, 'Ran', 'Why'], rows.map(r => h('tr', {}, td(jobLink(r.id)), td(pill(r.state)),
    params.map(k => td(String(r.p[k] ?? '–'), 'num')), outs.map(k => td(typeof r.o[k] === 'number' ? n(r.o[k]) : String(r.o[k] ?? '–'), 'num')), td(ran(r, j.now), 'num'), td(r.reason ?? '', 'wide')))),
    j.tasks.count > tableMost && h('p', { class: 'dim' }, `The first ${tableMost} tasks; berth status ${id} lists all.`));
}

// against plots a result's value against a parameter that was swept; another parameter, if there is one, makes the lines.
function against(rows, params, outs) {
  const numeric = (key, from) => rows.some(r => r[from][key] !== undefined && Number.isFinite(Number(r[from][key])));
  const varied = k => new Set(rows.map(r => r.p[k])).size > 1;
  const xs = params.filter(k => numeric(k, 'p') && varied(k)), ys = outs.filter(k => numeric(k, 'o'));
  if (!xs.length || !ys.length) return;
  const x = xs.includes(chosen.x) ? chosen.x : xs[0], y = ys.includes(chosen.y) ? chosen.y : ys[0];
  const other = params.find(k => k !== x && varied(k) && new Set(rows.map(r => r.p[k])).size <= linesMost);
  if (!made.fig) {
    made.fig = figure('Result against parameter', { 'data-chart': 'sweep' });
    made.picks = h('div', { class: 'tools filters' });
    into(made.plot, h('h2', {}, 'Result against parameter'), made.picks, made.fig.all);
  }
  const choose = key => v => { chosen[key] = v; against(rows, params, outs); };
  if (made.picks.dataset.of !== JSON.stringify([xs, ys, x, y])) {
    made.picks.dataset.of = JSON.stringify([xs, ys, x, y]);
    into(made.picks, pick('y', 'Result', ys, y, choose('y')), pick('x', 'against', xs, x, choose('x')));
  }
  into(made.fig.all.querySelector('figcaption'), `${y} against ${x}`, other && h('span', {}, `, a line for each ${other}`));
  made.fig.place.setAttribute('aria-label', `${y} against ${x}; the table below has the numbers`);
  const points = rows.filter(r => r.o[y] !== undefined && r.p[x] !== undefined);
  const times = [...new Set(points.map(r => Number(r.p[x])))].sort((a, b) => a - b);
  const names = other ? [...new Set(points.map(r => r.p[other]))].sort((a, b) => a - b) : [undefined];
  const lines = names.map(v => ({ label: v === undefined ? y : `${other} ${v}`, values: times.map(t => {
    const at = points.filter(r => Number(r.p[x]) === t && (v === undefined || r.p[other] === v)).map(r => Number(r.o[y]));
    return at.length ? at.reduce((sum, a) => sum + a, 0) / at.length : null;
  }) }));
  if (times.length) chart(made.fig.place, { times, lines, linear: true });
}
