import { act, get, mayAct } from '/assets/api.js';
import { Ansi } from '/assets/ansi.js';
import { chart, figure } from '/assets/chart.js';
import { ago, h, into, jobLink, n, ran, span, stateWord, table, td } from '/assets/dom.js';
import { group } from '/assets/sweep.js';

const gauges = { utilization: ['Utilization', 'utilization', '%', 100], memory: ['Memory', 'memory_usage_percent', '%', 100], temperature: ['Temperature', 'temperature_c', '°C', 0], power: ['Power', 'power_draw_w', ' W', 0] };
const parts = {};
let logOf = null;

function make(place, id) {
  for (const k of ['title', 'tools', 'why', 'summary', 'gpus', 'tasks', 'attempts', 'events', 'spec']) parts[k] = h('div', { id: k });
  parts.log = h('pre', { id: 'log', tabindex: 0, role: 'log', 'aria-label': 'Output' });
  parts.charts = Object.fromEntries(Object.entries(gauges).map(([k, g]) => [k, figure(g[0], { 'data-chart': k })]));
  parts.measured = h('section', { hidden: true }, h('h2', {}, 'Measured'), h('div', { class: 'charts' }, Object.values(parts.charts).map(c => c.all)));
  into(place, parts.title, parts.tools, parts.why, parts.summary, parts.tasks, parts.measured, parts.gpus, h('h2', {}, 'Output'), parts.log, parts.attempts, parts.events, parts.spec);
  listen(id);
}

function listen(id) {
  logOf = new EventSource(`/api/v1/jobs/${encodeURIComponent(id)}/log`);
  const ansi = new Ansi();
  logOf.onopen = () => { parts.log.replaceChildren(); };
  const put = nodes => {
    const low = parts.log.scrollHeight - parts.log.scrollTop - parts.log.clientHeight < 40;
    parts.log.append(...nodes);
    if (low) parts.log.scrollTop = parts.log.scrollHeight;
  };
  logOf.addEventListener('log', e => put(ansi.nodes(JSON.parse(e.data).text)));
  logOf.addEventListener('cut', e => put([h('span', { class: 'dim' }, JSON.parse(e.data).text + '\n')]));
  logOf.addEventListener('end', e => { logOf.close(); put([h('span', { class: 'dim' }, JSON.parse(e.data).text || '(end of the output)')]); });
}

const ended = s => !['queued', 'held', 'running'].includes(s);

export const page = {
  topics: id => ['job:' + id.split('.')[0], 'events'],
  every: 3000, // points of a run are stored while it runs
  async show(place, id) {
    const j = await get('jobs/' + encodeURIComponent(id));
    if (!parts.title) make(place, id);
    into(parts.title, h('p', {}, h('strong', {}, j.name || j.command), ' ', stateWord(j.state), j.reason ? ` ${j.reason}: ${j.reason_text ?? ''}` : '', j.progress ? ' ' + j.progress : ''));
    into(parts.tools, tools(j, id));
    await why(j, id);
    into(parts.summary, summary(j, id));
    await group(parts.tasks, j, id);
    into(parts.gpus, perGPU(j.result?.gpu_monitoring));
    into(parts.attempts, h('h2', {}, 'Attempts'), table('Attempts', ['Attempt', 'Outcome', 'Machine', 'GPUs', 'Started', 'Ran', 'Exit', 'Why'], (j.past ?? []).map(a =>
      h('tr', {}, td(a.attempt), td(a.outcome ?? 'running'), td(a.machine), td((a.devices ?? []).length || '-', 'num'), td(ago(a.started_at, j.now)), td(ran(a, j.now), 'num'),
        td(a.exit ? a.exit.signal || a.exit.code : '-'), td([a.reason ?? '', a.evidence ? h('span', { class: 'dim' }, ' ' + a.evidence) : ''], 'wide')))));
    into(parts.events, h('h2', {}, 'Events'), table('Events', ['When', 'What', 'By', 'Text'], j.events.map(e => h('tr', {}, td(ago(e.at, j.now)), td(e.kind), td(e.by), td(e.text ?? '', 'wide')))));
    if (!parts.spec.firstChild) into(parts.spec, h('h2', {}, 'Spec'), h('pre', { tabindex: 0, role: 'region', 'aria-label': 'Spec' }, JSON.stringify(j.spec, null, 2)));
    await measured(j, id);
  },
};

function tools(j, id) {
  const button = (text, path, body) => h('button', { 'data-key': text, disabled: !mayAct(), onclick: () => act(`jobs/${id}/${path}`, body) }, text);
  const row = h('div', { class: 'tools' });
  if (!ended(j.state)) row.append(button('Cancel', 'cancel'));
  if (j.state === 'queued') row.append(button('Hold', 'hold'));
  if (j.state === 'held') row.append(button('Release', 'release'));
  if (ended(j.state)) row.append(button('Retry', 'retry'));
  if (ended(j.state) && j.tasks) row.append(button('Retry the failed', 'retry', { failed: true }));
  if (!mayAct()) row.append(h('span', { class: 'dim' }, 'Actions need the token.'));
  return row;
}

async function why(j, id) {
  if (j.state !== 'queued' && j.state !== 'held') { into(parts.why); return; }
  const x = await get(`jobs/${encodeURIComponent(id)}/explain`);
  into(parts.why, h('h2', {}, 'Why it waits'), h('p', {}, x.reason ? h('strong', {}, x.reason + ': ') : '', x.text),
    x.position ? h('p', {}, 'Position ' + x.position, x.in_front?.length ? ['; in front: ', x.in_front.map(i => [jobLink(i), ' '])] : '') : '',
    (x.sooner ?? []).map(s => h('p', {}, 'Sooner: ' + s)));
}

function summary(j, id) {
  const r = j.result, pair = (k, v) => v === undefined || v === null || v === '' ? [] : [h('dt', {}, k), h('dd', {}, v)];
  return h('section', { class: 'card', 'aria-label': 'Summary' }, h('dl', {}, pair('Command', j.command), pair('User, project', j.user + ', ' + j.project), j.group ? pair('Task of', jobLink(j.group)) : [],
    pair('Parameters', j.params && Object.entries(j.params).map(([k, v]) => `${k}=${v}`).join(' ')), pair('GPUs', j.requirements.gpus || 'none'), pair('Memory per GPU', j.requirements.gpu_memory_mb && n(j.requirements.gpu_memory_mb) + ' MiB'),
    pair('Model', j.requirements.model), pair('Machine', j.machine), pair('Queued', ago(j.queued_at, j.now)), pair('Ran', ran(j, j.now)), pair('Waited', r && span(r.queued_seconds)), pair('Exit', r?.exit && (r.exit.signal || String(r.exit.code))),
    pair('Reason', r?.reason), pair('GPU-hours', r?.report && n(r.report.gpu_hours)), pair('Energy', r?.report?.energy_joules && n(r.report.energy_joules) + ' J'), pair('Samples', r?.gpu_monitoring?.sample_count),
    (r?.report?.advice ?? []).map(a => pair('Advice', a)), (r?.warnings ?? []).map(a => pair('Warning', a)), pair('Output', r?.output && JSON.stringify(r.output))));
}

const stat = s => s ? `${n(s.mean)} (${n(s.min)} to ${n(s.max)})` : '-';
function perGPU(m) {
  if (!m) return [];
  return [h('h2', {}, 'Per GPU'), table('Per GPU: mean with least and most', ['GPU', 'Name', 'Utilization %', 'Memory MiB', 'Memory %', 'Temperature °C', 'Power W'], Object.entries(m.gpu_stats).map(([k, g]) =>
    h('tr', {}, td(k), td(g.name), td(stat(g.utilization)), td(stat(g.memory_used_mb)), td(stat(g.memory_usage_percent)), td(stat(g.temperature_c)), td(stat(g.power_draw_w)))))];
}

let settled = false;
async function measured(j, id) {
  if (!j.requirements.gpus || j.tasks || settled || !j.started_at) return;
  let s;
  try { s = (await get(`jobs/${encodeURIComponent(id)}/series`)).series; } catch (e) { if (e.status === 404) return; throw e; }
  settled = ended(j.state);
  parts.measured.hidden = false;
  const gpus = Object.entries(s.gpus).sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true })), start = Date.parse(s.started_at) / 1000;
  for (const [k, [, field, unit, max]] of Object.entries(gauges)) {
    const lines = gpus.filter(([, g]) => g[field]?.length).map(([key, g]) => ({ label: 'GPU ' + key, values: g[field] }));
    const { place, all } = parts.charts[k];
    all.hidden = false;
    if (!lines.length) { place.textContent = 'this GPU does not measure it'; continue; }
    const points = Math.max(...lines.map(l => l.values.length));
    chart(place, { times: Array.from({ length: points }, (_, i) => start + i * s.step_seconds), lines, unit, max });
    place.setAttribute('aria-label', `${gauges[k][0]}: ` + lines.map(l => `${l.label} last ${n(l.values.at(-1))}${unit}`).join(', '));
  }
}
