import { get } from '/assets/api.js';
import { bar, empty, h, into, n, pill, plural, span } from '/assets/dom.js';
import { gpuCard } from '/assets/gpus.js';
import { lanes } from '/assets/lanes.js';

const cardsMost = 24;
let made = null;
export const page = {
  topics: () => ['jobs', 'machines', 'broker'],
  async show(place) {
    if (!made) {
      made = { figures: h('div', { class: 'tiles' }), gpus: h('div', { class: 'cards' }), time: h('div') };
      into(place, made.figures, made.time, h('h2', {}, 'GPUs'), made.gpus);
    }
    const [o, m] = await Promise.all([get('overview'), get('machines')]);
    const gpus = m.machines.flatMap(x => (x.gpus ?? []).map(g => ({ x, g })));
    const busy = gpus.filter(({ g }) => g.active).length, out = gpus.filter(({ g }) => !['ready', 'busy', 'draining'].includes(g.state)).length;
    into(made.figures,
      tile('Running', n(o.counts.running), `${n(o.counts.finished)} finished so far`),
      tile('Queued', n(o.counts.queued), o.counts.delayed ? `${n(o.counts.delayed)} more wait for a time or another job` : 'wait for room'),
      tile('Waiting time', o.waited.jobs ? span(o.waited.median_seconds) : '–', o.waited.jobs ? `median of ${plural(o.waited.jobs, 'job')} in 24 h; 9 of 10 under ${span(o.waited.p90_seconds)}` : 'nothing has started in 24 h'),
      tile('GPUs in use', `${busy} of ${gpus.length}`, `${plural(m.machines.length, 'machine')}${out ? `; ${out} out of service` : ''}`, bar(busy, gpus.length, 'GPUs in use')));
    await lanes(made.time, m.machines);
    if (!gpus.length) into(made.gpus, h('div', { class: 'card empty' }, empty('No machine shows a GPU', 'berth doctor says why; berth join prints the line that starts a worker elsewhere.')));
    else if (gpus.length <= cardsMost) into(made.gpus, gpus.map(({ x, g }) => gpuCard(x, g, m.machines.length > 1)));
    else into(made.gpus, m.machines.map(brief));
  },
};

const tile = (title, value, note, more) => h('section', { class: 'card tile' }, h('h2', {}, title), h('p', { class: 'big' }, value), more, h('p', { class: 'dim' }, note));

// brief is a machine in one card, where there are too many GPUs for a card each.
function brief(m) {
  const all = m.gpus ?? [], busy = all.filter(g => g.active).length;
  const says = all.filter(g => g.utilization_percent !== undefined), mean = says.reduce((s, g) => s + g.utilization_percent, 0) / (says.length || 1);
  return h('section', { class: 'card gpu', 'data-machine': m.name }, h('header', {}, h('div', {}, h('h3', {}, h('a', { href: '/machines#' + encodeURIComponent(m.name) }, m.name)), h('span', { class: 'dim' }, `${all.length} × ${all[0]?.name ?? 'no GPU'}`)), m.draining && pill('draining')),
    bar(busy, all.length, `GPUs of ${m.name} in use`), h('div', { class: 'foot' }, h('span', {}, `${busy} of ${all.length} in use`), h('span', {}, n(mean) + ' % busy')));
}
