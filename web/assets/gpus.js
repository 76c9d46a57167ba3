import { gib, h, jobLinks, meter, n, pill } from '/assets/dom.js';

const level = v => v >= 97 ? 'warn' : '';

// gpuCard shows one GPU: how busy it is, what is on it, and what is wrong. named: with the machine it is in.
export function gpuCard(machine, g, named, ...more) {
  const used = g.memory_free_mb === undefined ? undefined : g.memory_total_mb - g.memory_free_mb;
  return h('section', { class: 'card gpu', 'data-gpu': g.uuid, 'aria-label': `${machine.name} GPU ${g.index}` },
    h('header', {}, h('div', {}, h('h3', {}, named ? `${machine.name} · GPU ${g.index}` : `GPU ${g.index}`), h('span', { class: 'dim' }, g.name)), pill(g.state)),
    g.utilization_percent === undefined ? h('p', { class: 'dim' }, 'does not say how busy it is') : meter('Utilization', g.utilization_percent, 100, n(g.utilization_percent) + ' %'),
    used === undefined ? '' : meter('Memory', used, g.memory_total_mb, `${gib(used)} of ${gib(g.memory_total_mb)}`, 'memory', level(100 * used / g.memory_total_mb)),
    h('div', { class: 'foot' }, g.temperature_c !== undefined && h('span', {}, n(g.temperature_c) + ' °C'), g.power_w !== undefined && h('span', {}, n(g.power_w) + ' W'),
      h('span', {}, `${g.active} of ${g.slots} ${g.slots === 1 ? 'slot' : 'slots'}`), g.score !== undefined && h('span', { title: 'availability score' }, 'score ' + n(g.score))),
    g.jobs?.length ? h('p', {}, 'Runs ', jobLinks(g.jobs)) : '',
    g.foreign?.length ? h('p', { class: 'warn' }, 'Not ours: ' + g.foreign.join('; ')) : '',
    g.why && g.state !== 'ready' && g.state !== 'busy' && !(g.state === 'foreign' && g.foreign?.length) ? h('p', { class: g.state === 'foreign' || g.state === 'draining' ? 'warn' : 'bad' }, g.why) : '', more);
}
