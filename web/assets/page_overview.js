import { get } from '/assets/api.js';
import { h, into, n, span } from '/assets/dom.js';
import { gpuCard } from '/assets/gpus.js';
import { gpuTime } from '/assets/gputime.js';

let made = null;
export const page = {
  topics: () => ['jobs', 'machines', 'broker'],
  async show(place) {
    if (!made) {
      made = { figures: h('div', { class: 'cards' }), gpus: h('div', { class: 'cards' }), time: h('div') };
      into(place, made.figures, h('h2', {}, 'GPUs'), made.gpus, made.time);
    }
    const [o, m] = await Promise.all([get('overview'), get('machines')]);
    const card = (title, value, note) => h('section', { class: 'card' }, h('h2', {}, title), h('p', { class: 'big' }, value), h('p', { class: 'dim' }, note));
    const gpus = m.machines.flatMap(x => x.gpus ?? []);
    into(made.figures, card('Queued', n(o.counts.queued), o.counts.delayed ? n(o.counts.delayed) + ' more wait for a time' : 'wait for GPUs'), card('Running', n(o.counts.running), n(o.counts.finished) + ' finished'),
      card('Waiting time', span(o.waited.median_seconds), `median of ${n(o.waited.jobs)} in 24 h; nine of ten under ${span(o.waited.p90_seconds)}`),
      card('GPUs in use', `${gpus.filter(g => g.active).length} of ${gpus.length}`, `${m.machines.length} machines`));
    into(made.gpus, gpus.length ? m.machines.flatMap(x => (x.gpus ?? []).map(g => gpuCard(x, g, m.now))) : h('p', {}, 'No machine shows a GPU. berth doctor says why; berth join starts a worker elsewhere.'));
    await gpuTime(made.time, 60);
  },
};
