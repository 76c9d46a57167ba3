import { get } from '/assets/api.js';
import { ago, h, into, jobLink, n, ran, stateWord, table, td } from '/assets/dom.js';

const states = ['queued', 'held', 'running', 'succeeded', 'failed', 'cancelled', 'timeout', 'oom_gpu', 'oom_host', 'expired', 'dead'];
const columns = [['id', 'Job'], ['name', 'Name'], ['state', 'State'], ['user', 'User'], ['project', 'Project'], ['gpus', 'GPUs'], ['model', 'Model'],
  ['', 'Measured'], ['machine', 'Machine'], ['', 'Queued'], ['run', 'Ran'], ['', 'Why']];
const perPage = 50;

// What is asked for stands in the address, so that it can be kept and sent to somebody.
const wish = () => new URLSearchParams(location.search);
function want(changes) {
  const w = wish();
  for (const [k, v] of Object.entries(changes)) v ? w.set(k, v) : w.delete(k);
  history.replaceState(null, '', '?' + w);
  return page.show(document.getElementById('content'));
}

let made = null;
function make(place) {
  const w = wish();
  const pick = (name, label, values) => {
    const s = h('select', { name, 'data-key': name, onchange: e => want({ [name]: e.target.value, offset: '' }) }, h('option', { value: '' }, 'all'), values.map(v => h('option', { value: v }, v)));
    s.value = w.get(name) ?? '';
    return { select: s, label: h('label', {}, label, s) };
  };
  let timer;
  const search = h('input', { type: 'search', name: 'q', value: w.get('q') ?? '', 'data-key': 'q',
    oninput: e => { clearTimeout(timer); timer = setTimeout(() => want({ q: e.target.value, offset: '' }), 200); } });
  made = { state: pick('state', 'State', states), user: pick('user', 'User', []), project: pick('project', 'Project', []), list: h('div'), pager: h('div', { class: 'tools' }) };
  into(place, h('form', { class: 'filters', role: 'search', onsubmit: e => e.preventDefault() }, h('label', {}, 'Search: number, name, model, user', search), made.state.label, made.user.label, made.project.label),
    made.list, made.pager);
}

function fill({ select }, values, name) {
  const have = new Set([...select.options].map(o => o.value));
  for (const v of values) if (!have.has(v)) select.append(h('option', { value: v }, v));
  select.value = wish().get(name) ?? '';
}

let asked = 0;
export const page = {
  topics: () => ['jobs'],
  async show(place) {
    if (!made) make(place);
    const w = wish(), turn = ++asked;
    w.set('limit', perPage);
    const a = await get('jobs?' + w);
    if (turn !== asked) return; // a later wish is on its way
    fill(made.user, a.users ?? [], 'user');
    fill(made.project, a.projects ?? [], 'project');
    into(made.list, table('Jobs', columns.map(c => head(c, w)), a.jobs.map(j => line(j, a.now))));
    const from = a.offset, last = Math.min(from + a.jobs.length, a.total);
    into(made.pager, h('span', { id: 'total' }, a.total ? `${n(from + 1)} to ${n(last)} of ${n(a.total)}` : 'no jobs fit'),
      h('button', { 'data-key': 'newer', disabled: from === 0, onclick: () => want({ offset: Math.max(0, from - perPage) || '' }) }, 'Previous'),
      h('button', { 'data-key': 'older', disabled: last >= a.total, onclick: () => want({ offset: from + perPage }) }, 'Next'));
  },
};

function head([key, title], w) {
  if (!key) return h('th', { scope: 'col' }, title);
  const now = (w.get('sort') ?? 'id') === key, up = w.get('order') === 'asc';
  return h('th', { scope: 'col', 'aria-sort': now ? (up ? 'ascending' : 'descending') : undefined },
    h('button', { 'data-key': 'sort-' + key, onclick: () => want({ sort: key, order: now && !up ? 'asc' : '', offset: '' }) }, title, now ? (up ? ' ▲' : ' ▼') : ''));
}

function line(j, now) {
  const state = j.tasks ? [stateWord(j.state), ` ${j.tasks.ended}/${j.tasks.count}`] : stateWord(j.state);
  return h('tr', { 'data-job': j.id }, td(jobLink(j.id)), td(j.name || '-', 'wide'), td(state), td(j.user), td(j.project), td(j.gpus || '-', 'num'),
    td([j.model || j.gpu_model || '-', j.model && j.gpu_model ? h('span', { class: 'dim' }, ' on ' + j.gpu_model) : '']),
    td(j.monitored ? h('span', { class: 'good' }, '✓ measured') : '-'), td(j.machine || '-'), td(ago(j.queued_at, now)), td(ran(j, now), 'num'), td(j.reason || '', 'wide'));
}
