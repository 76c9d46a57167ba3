import { get } from '/assets/api.js';
import { ago, bar, empty, h, into, jobLink, n, partsBar, pick, pill, ran, table, td } from '/assets/dom.js';

const states = ['queued', 'held', 'running', 'succeeded', 'failed', 'cancelled', 'timeout', 'oom_gpu', 'oom_host', 'expired', 'dead'];
const columns = [['id', 'Job'], ['name', 'Name'], ['state', 'State'], ['user', 'User'], ['gpus', 'GPUs'], ['model', 'Model'],
  ['', 'Monitored'], ['machine', 'Machine'], ['queued', 'Queued'], ['run', 'Ran'], ['', 'Why']];
const perPage = 50;

// What is asked for stands in the address, so that it can be kept and sent to somebody.
const wish = () => new URLSearchParams(location.search);
function want(changes) {
  const w = wish();
  for (const [k, v] of Object.entries(changes)) v ? w.set(k, v) : w.delete(k);
  history.replaceState(null, '', w.size ? '?' + w : location.pathname);
  return page.show(document.getElementById('content'));
}

let made = null;
function make(place) {
  let timer;
  const search = h('input', { type: 'search', name: 'q', value: wish().get('q') ?? '', 'data-key': 'q', 'aria-label': 'Search by number, name, model or user', placeholder: 'Search: number, name, model, user',
    oninput: e => { clearTimeout(timer); timer = setTimeout(() => want({ q: e.target.value, offset: '' }), 200); } });
  made = { search, picks: h('div', { class: 'tools' }), list: h('div'), pager: h('div', { class: 'tools end' }) };
  into(place, h('form', { class: 'filters', role: 'search', onsubmit: e => e.preventDefault() }, h('label', { class: 'search' }, search), made.picks), made.list, made.pager);
}

function picks(a) {
  const w = wish(), all = values => [['', 'all'], ...values.map(v => [v, v])];
  const one = (key, label, values) => pick(key, label, all(w.get(key) && !values.includes(w.get(key)) ? [...values, w.get(key)] : values), w.get(key) ?? '', v => want({ [key]: v, offset: '' }));
  const key = JSON.stringify([a.users, a.projects, w.get('state'), w.get('user'), w.get('project')]);
  if (made.picks.dataset.of === key) return;
  made.picks.dataset.of = key;
  into(made.picks, one('state', 'State', states), one('user', 'User', a.users ?? []), one('project', 'Project', a.projects ?? []));
}

let asked = 0, waiting = false;
export const page = {
  topics: () => waiting ? ['jobs', 'machines'] : ['jobs'], // why a job waits changes with the machines
  async show(place) {
    if (!made) make(place);
    const w = wish(), turn = ++asked;
    w.set('limit', perPage);
    const a = await get('jobs?' + w);
    if (turn !== asked) return; // a later wish is on its way
    picks(a);
    const none = w.size > 1 ? empty('No jobs fit', 'Other filters may.') : empty(a.loaded ? 'No jobs yet' : 'Loading', a.loaded && 'submit -g 1 -- nvidia-smi sends the first one.');
    into(made.list, table('Jobs', columns.map(c => head(c, w)), a.jobs.map(j => line(j, a.now)), none, 'fold'));
    const last = Math.min(a.offset + a.jobs.length, a.total);
    into(made.pager, h('span', { id: 'total', class: 'dim num' }, a.total ? `${n(a.offset + 1)} to ${n(last)} of ${n(a.total)}` : 'no jobs fit'),
      h('button', { 'data-key': 'newer', disabled: a.offset === 0, onclick: () => want({ offset: Math.max(0, a.offset - perPage) || '' }) }, 'Previous'),
      h('button', { 'data-key': 'older', disabled: last >= a.total, onclick: () => want({ offset: a.offset + perPage }) }, 'Next'));
    await words(a.jobs, turn);
  },
};

// words adds why those that wait do so; the broker is asked for it, so it comes after the list.
async function words(jobs, turn) {
  const ids = jobs.filter(j => j.state === 'queued' && !j.reason && !j.tasks).map(j => j.id);
  waiting = ids.length > 0;
  if (!waiting) return;
  const { reasons } = await get('reasons?ids=' + ids.join(','));
  if (turn !== asked) return;
  for (const [id, word] of Object.entries(reasons)) {
    const cell = made.list.querySelector(`tr[data-job="${CSS.escape(id)}"] td[data-why]`);
    if (cell) cell.textContent = word;
  }
}

function head([key, title], w) {
  const cls = title === 'GPUs' || title === 'Ran' ? 'num' : undefined;
  if (!key) return h('th', { scope: 'col' }, title);
  const now = (w.get('sort') ?? 'id') === key, up = w.get('order') === 'asc';
  return h('th', { scope: 'col', class: cls, 'aria-sort': now ? (up ? 'ascending' : 'descending') : undefined },
    h('button', { 'data-key': 'sort-' + key, onclick: () => want({ sort: key === 'id' ? '' : key, order: now && !up ? 'asc' : '', offset: '' }) }, title, now ? (up ? ' ↑' : ' ↓') : ''));
}

function line(j, now) {
  const p = j.progress, share = p && Math.min(1, p.done / p.total);
  const why = td(j.reason || '', 'wide rest');
  if (why.firstChild === null || j.state === 'queued') why.dataset.why = '';
  return h('tr', { 'data-job': j.id }, td(jobLink(j.id), 'num'), td([h('a', { href: '/jobs/' + j.id }, j.name || '–'), h('span', { class: 'sub' }, j.project, j.kind === 'lease' && ', lease')], 'wide'),
    td([pill(j.state), j.tasks && [' ', h('span', { class: 'dim num' }, `${j.tasks.ended}/${j.tasks.count}`), partsBar(j.tasks.states, j.tasks.count, `${j.tasks.ended} of ${j.tasks.count} tasks ended`)], p && bar(share * 100, 100, `Progress of job ${j.id}`)]),
    td(j.user, 'rest', 'by'), td(j.gpus || '–', 'num rest', 'GPUs'), td([j.model || j.gpu_model || '–', j.model && j.gpu_model && h('span', { class: 'sub' }, 'on ' + j.gpu_model)], 'rest', 'model'),
    td(j.monitored ? h('span', { class: 'good', title: 'GPU measurements exist' }, '✓ yes') : h('span', { class: 'dim' }, '–'), 'rest', 'monitored'), td(j.machine || '–', 'rest', 'on'), td(ago(j.queued_at, now), 'rest', 'queued'), td(ran(j, now), 'num rest', 'ran'), why);
}
