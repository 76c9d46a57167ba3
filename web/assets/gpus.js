import { h, jobLink, n } from '/assets/dom.js';

export function gpuCard(machine, g) {
  const used = g.memory_free_mb === undefined ? undefined : g.memory_total_mb - g.memory_free_mb;
  const bad = g.state !== 'ready' && g.state !== 'draining';
  return h('section', { class: 'card', 'data-gpu': g.uuid }, h('h3', {}, `${machine.name} GPU ${g.index}`), h('p', { class: 'dim' }, g.name),
    h('p', { class: bad ? 'bad' : 'good' }, g.state, g.why ? ': ' + g.why : ''),
    g.utilization_percent !== undefined && [h('p', {}, `Utilization ${n(g.utilization_percent)} %`), h('progress', { max: 100, value: g.utilization_percent, 'aria-label': 'Utilization' })],
    used !== undefined && [h('p', {}, `Memory ${n(used)} of ${n(g.memory_total_mb)} MiB`), h('progress', { max: g.memory_total_mb, value: used, 'aria-label': 'Memory' })],
    h('p', { class: 'dim' }, [g.temperature_c !== undefined && n(g.temperature_c) + ' °C', g.power_w !== undefined && n(g.power_w) + ' W', `${g.active} of ${g.slots} slots`].filter(Boolean).join(', ')),
    g.jobs?.length ? h('p', {}, 'Jobs ', g.jobs.map(j => [jobLink(j), ' '])) : '', g.foreign?.length ? h('p', { class: 'warn' }, 'Foreign: ' + g.foreign.join('; ')) : '');
}
