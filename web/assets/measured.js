import { get } from '/assets/api.js';
import { chart, figure } from '/assets/chart.js';
import { h, into, n } from '/assets/dom.js';

const gauges = { utilization: ['Utilization', 'utilization', '%', 100], memory: ['Memory', 'memory_usage_percent', '%', 100], temperature: ['Temperature', 'temperature_c', '°', 0], power: ['Power', 'power_draw_w', ' W', 0] };
let made = null, settled = '';

// charts draws what was measured on the job's GPUs, a line for each. A run that has ended is read once more, then no more.
export async function charts(place, j, id, ended) {
  const of = [j.attempts, ended, getComputedStyle(document.documentElement).colorScheme, matchMedia('(prefers-color-scheme: dark)').matches].join();
  if (!j.requirements.gpus || j.tasks || !j.started_at || settled === of) return;
  const s = (await get(`jobs/${encodeURIComponent(id)}/series`)).series;
  settled = ended ? of : '';
  if (!Object.keys(s.gpus).length) return;
  if (!made) {
    made = Object.fromEntries(Object.entries(gauges).map(([k, g]) => [k, figure(g[0], { 'data-chart': k }, 'on each GPU')]));
    into(place, h('h2', {}, 'Measured'), h('div', { class: 'charts' }, Object.values(made).map(c => c.all)));
  }
  const gpus = Object.entries(s.gpus).sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true })), start = Date.parse(s.started_at) / 1000;
  for (const [k, [title, field, unit, max]] of Object.entries(gauges)) {
    const lines = gpus.filter(([, g]) => g[field]?.length).map(([key, g]) => ({ label: 'GPU ' + key, values: g[field] }));
    const fig = made[k].place;
    if (!lines.length) { fig.textContent = 'This GPU does not measure it.'; continue; }
    const points = Math.max(...lines.map(l => l.values.length));
    for (const l of lines) l.values = [...l.values, ...Array(points - l.values.length).fill(null)];
    chart(fig, { times: Array.from({ length: points }, (_, i) => start + i * s.step_seconds), lines, unit, max, sync: 'job' });
    fig.setAttribute('aria-label', `${title}: ` + lines.map(l => `${l.label} last ${n(l.values.findLast(v => v !== null))}${unit}`).join(', '));
  }
}
