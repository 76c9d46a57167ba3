import { act, get, mayAct } from '/assets/api.js';
import { chart, figure } from '/assets/chart.js';
import { ago, h, into, jobLink, n } from '/assets/dom.js';
import { gpuCard } from '/assets/gpus.js';

const made = new Map();
export const page = {
  topics: () => ['machines', 'points'],
  async show(place) {
    const a = await get('machines');
    if (!a.machines.length) { made.clear(); into(place, h('p', {}, 'No machine is there. berth up or worker starts one; berth doctor says what is wrong.')); return; }
    for (const name of made.keys()) if (!a.machines.some(m => m.name === name)) { made.get(name).all.remove(); made.delete(name); }
    for (const m of a.machines) {
      if (!made.has(m.name)) {
        if (!made.size) into(place);
        const x = { head: h('div'), fig: figure(`Utilization of ${m.name}, last day`, { 'data-chart': 'machine' }) };
        x.all = h('section', { 'data-machine': m.name }, h('h2', {}, m.name), x.head, x.fig.all);
        made.set(m.name, x);
        place.append(x.all);
      }
      draw(made.get(m.name), m, a.now);
      await past(made.get(m.name), m);
    }
  },
};

const path = m => 'machines/' + encodeURIComponent(m.name);
function draw(x, m, now) {
  const gpu = g => {
    const card = gpuCard(m, g), out = g.state === 'quarantined';
    card.append(h('button', { 'data-key': g.uuid, disabled: !mayAct(), onclick: () => act(`${path(m)}/gpus/${encodeURIComponent(g.uuid)}/${out ? 'restore' : 'quarantine'}`) }, out ? 'Restore' : 'Quarantine'));
    return card;
  };
  into(x.head, h('p', {}, `${m.cpus} CPUs, ${n(m.memory_mb)} MiB, version ${m.version}, GPUs by ${m.gpu_source ?? 'nobody'}`, m.draining ? h('strong', { class: 'warn' }, ', draining') : '', ', heard of ', ago(m.at, now)),
    (m.running ?? []).length ? h('p', {}, 'Runs ', m.running.map(j => [jobLink(j), ' '])) : h('p', { class: 'dim' }, 'Runs nothing'), (m.warnings ?? []).map(w => h('p', { class: 'warn' }, w)),
    h('div', { class: 'tools' }, h('button', { 'data-key': 'drain-' + m.name, disabled: !mayAct(), onclick: () => act(`${path(m)}/${m.draining ? 'undrain' : 'drain'}`) }, m.draining ? 'Undrain' : 'Drain')),
    h('div', { class: 'cards' }, (m.gpus ?? []).map(gpu)));
}

async function past(x, m) {
  const { points } = await get(path(m) + '/history');
  x.fig.all.hidden = points.length === 0;
  if (!points.length) return;
  const ids = [...new Set(points.flatMap(p => Object.keys(p.gpus)))];
  chart(x.fig.place, { times: points.map(p => Date.parse(p.at) / 1000), unit: '%', max: 100,
    lines: ids.map(id => ({ label: 'GPU ' + (points.find(p => p.gpus[id]).gpus[id].index), values: points.map(p => p.gpus[id]?.utilization_percent ?? null) })) });
}
