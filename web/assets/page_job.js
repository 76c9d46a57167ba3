import { button, get } from '/assets/api.js';
import { ago, bar, empty, facts, gib, h, into, jobLink, jobLinks, n, pill, ran, span, table, td } from '/assets/dom.js';
import { charts } from '/assets/measured.js';
import { output } from '/assets/output.js';
import { group } from '/assets/sweep.js';

let parts = null;
function make(place, id) {
  const p = {};
  for (const k of ['lead', 'why', 'tasks', 'measured', 'gpus', 'attempts', 'events', 'spec', 'summary']) p[k] = h('div', { id: k });
  p.why.className = 'card why';
  p.log = h('div');
  into(place, p.lead, p.why, h('div', { class: 'split' }, h('div', {}, p.tasks, p.measured, p.gpus, p.log, p.attempts, p.events, p.spec), h('div', { class: 'aside' }, p.summary)));
  return p;
}

const ended = s => !['queued', 'held', 'running'].includes(s);

export const page = {
  topics: id => ['job:' + id.split('.')[0], 'events'],
  every: 3000, // points of a run are stored while it runs
  async show(place, id) {
    const j = await get('jobs/' + encodeURIComponent(id));
    if (!parts) {
      parts = make(place, id);
      if (!j.tasks) output(parts.log, id);
    }
    if (j.tasks) document.querySelector('h1').textContent = 'Group ' + id;
    document.title = `${id} ${j.name || ''} · Berth`;
    const p = j.progress;
    into(parts.lead, h('div', { class: 'lead' }, pill(j.state), h('strong', {}, j.name || j.command), j.reason && h('span', { class: 'dim' }, j.reason, j.reason_text ? ': ' + j.reason_text : '')),
      p && h('div', { class: 'meter' }, h('div', {}, h('span', {}, p.text || 'Progress'), h('b', {}, p.total === 100 ? n(p.done) + ' %' : `${n(p.done)} of ${n(p.total)}`)), bar(p.done, p.total, 'Progress')));
    into(document.getElementById('actions'), actions(j, id));
    await why(j, id);
    into(parts.summary, summary(j));
    await group(parts.tasks, j, id);
    await charts(parts.measured, j, id, ended(j.state));
    into(parts.gpus, perGPU(j.result?.gpu_monitoring));
    into(parts.attempts, !j.tasks && [h('h2', {}, 'Attempts'), table('Attempts', ['Attempt', 'Outcome', 'Machine', 'GPUs', 'Started', 'Ran', 'Exit', 'Why'], (j.past ?? []).map(a =>
      h('tr', {}, td(a.attempt), td(pill(a.outcome ?? 'running')), td(a.machine), td((a.devices ?? []).length || '–'), td(ago(a.started_at, j.now)), td(ran(a, j.now)),
        td(a.exit ? a.exit.signal || a.exit.code : '–'), td([a.reason ?? '', a.evidence && h('span', { class: 'sub' }, a.evidence)], 'wide'))), empty('Not started yet'))]);
    into(parts.events, h('h2', {}, 'Events'), table('Events', ['When', 'What', 'By', 'Text'], history(j).map(e => h('tr', {}, td(ago(e.at, j.now)), td(e.kind), td(e.by || '–'), td(e.text ?? '', 'wide')))));
    if (!parts.spec.firstChild) into(parts.spec, h('details', {}, h('summary', {}, 'Spec'), h('pre', { tabindex: 0, role: 'region', 'aria-label': 'Spec' }, JSON.stringify(j.spec, null, 2))));
  },
};

// history is what people and workers did, between the job's own milestones, newest first.
function history(j) {
  const own = [{ at: j.queued_at, kind: 'queued', by: j.user, text: j.requirements.why ?? '' }];
  for (const a of j.past ?? []) {
    own.push({ at: a.started_at, kind: 'started', by: a.machine, text: 'attempt ' + a.attempt });
    if (a.ended_at) own.push({ at: a.ended_at, kind: a.outcome ?? 'ended', by: a.machine, text: ['attempt ' + a.attempt, a.reason].filter(Boolean).join(': ') });
  }
  return [...own, ...j.events].sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
}

function actions(j, id) {
  const path = verb => `jobs/${id}/${verb}`, row = h('div', { class: 'tools' });
  row.style.margin = 0;
  if (j.state === 'queued') row.append(button('Hold', path('hold'), { confirm: `Hold job ${id}?`, reason: true }));
  if (j.state === 'held') row.append(button('Release', path('release')));
  if (ended(j.state) && j.tasks) row.append(button('Retry what failed', path('retry'), { body: { failed: true } }));
  if (ended(j.state)) row.append(button('Retry', path('retry'), { confirm: j.tasks ? `Run all ${j.tasks.count} tasks of ${id} again?` : undefined }));
  if (!ended(j.state)) row.append(button('Cancel', path('cancel'), { confirm: `Cancel job ${id}?`, reason: true, cls: 'harm' }));
  return row;
}

async function why(j, id) {
  if (j.state !== 'queued' && j.state !== 'held') { into(parts.why); return; }
  const x = await get(`jobs/${encodeURIComponent(id)}/explain`).catch(e => { if (e.status === 404) return { text: e.message }; throw e; }); // the page has more to show
  into(parts.why, h('h2', {}, 'Why it waits'), h('p', {}, x.reason && h('strong', {}, x.reason + ': '), x.text),
    x.position && h('p', { class: 'dim' }, `Position ${x.position}`, x.in_front?.length ? ['; in front: ', jobLinks(x.in_front.slice(0, 12)), x.in_front.length > 12 && ` and ${x.in_front.length - 12} more`] : ''),
    x.estimate && h('p', { class: 'dim' }, 'May start ', ago(x.estimate.start_at, j.now), `, by ${x.estimate.basis}`),
    x.machines?.length && h('ul', {}, x.machines.slice(0, 12).map(m => h('li', {}, h('strong', {}, m.name), ' ', m.text))), x.sooner?.length && h('p', {}, 'Sooner: ' + x.sooner.join('; ')));
}

function summary(j) {
  const r = j.result, need = j.requirements;
  return [h('section', { class: 'card', 'aria-label': 'Summary' }, facts([
    ['User', [j.user, j.user_claimed && h('span', { class: 'dim', title: 'no credential proves it' }, ' (claimed)')]], ['Project', j.project], ['Task of', j.group && jobLink(String(j.group))],
    ['Parameters', j.params && Object.entries(j.params).map(([k, v]) => `${k}=${v}`).join(' ')], ['Labels', j.labels && Object.entries(j.labels).map(([k, v]) => `${k}=${v}`).join(' ')],
    ['GPUs', need.gpus ? [String(need.gpus), r?.gpu_info?.gpu_info?.details?.[0] && ` × ${r.gpu_info.gpu_info.details[0].name}`] : 'none'], ['Memory', need.gpu_memory_mb && gib(need.gpu_memory_mb) + ' on each GPU'], ['Model', need.model],
    ['Machine', j.machine], ['Priority', String(j.priority)], ['Queued', ago(j.queued_at, j.now)], ['Waited', r && span(r.queued_seconds)], ['Ran', j.started_at && ran(j, j.now)], ['Runs as', r?.run_as],
    ['Exit', r?.exit && (r.exit.signal || String(r.exit.code))], ['Reason', r?.reason], ['GPU hours', r?.report?.gpu_hours && String(Math.round(r.report.gpu_hours * 1000) / 1000)], ['Energy', r?.report?.energy_joules && energy(r.report.energy_joules)],
    ['Samples', r?.gpu_monitoring?.sample_count && `${n(r.gpu_monitoring.sample_count)} in ${span(r.gpu_monitoring.monitoring_duration_seconds)}`], ['Output', r?.output && h('code', {}, JSON.stringify(r.output))],
    ['Command', h('code', {}, j.command)],
  ]), (r?.report?.advice ?? []).map(a => h('p', { class: 'advice' }, a)), (r?.warnings ?? []).map(a => h('p', { class: 'warn' }, a)))];
}

const energy = j => j >= 36e5 ? n(j / 36e5) + ' kWh' : j >= 3600 ? n(j / 3600) + ' Wh' : n(j) + ' J';
const round = v => Math.round(v).toLocaleString('en');
const stat = s => s ? [h('strong', {}, round(s.mean)), h('span', { class: 'dim' }, ` ${round(s.min)}–${round(s.max)}`)] : '–';
function perGPU(m) {
  if (!m) return [];
  return [h('h2', {}, 'Per GPU ', h('span', { class: 'dim' }, 'mean, least–most')), table('Per GPU: mean, least and most', ['GPU', 'Utilization %', 'Memory MiB', 'Memory %', 'Temperature °C', 'Power W'], Object.entries(m.gpu_stats).map(([k, g]) =>
    h('tr', {}, td([k, h('span', { class: 'sub' }, g.name)]), td(stat(g.utilization), 'num'), td(stat(g.memory_used_mb), 'num'), td(stat(g.memory_usage_percent), 'num'), td(stat(g.temperature_c), 'num'), td(stat(g.power_draw_w), 'num'))))];
}
