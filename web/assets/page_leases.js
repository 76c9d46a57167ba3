import { act, get, mayAct } from '/assets/api.js';
import { ago, h, into, jobLink, stateWord, table, td } from '/assets/dom.js';

export const page = {
  topics: () => ['jobs', 'machines'],
  async show(place) {
    const a = await get('leases');
    into(place, h('h2', {}, 'Held'), table('Held leases', ['Lease', 'User', 'Machine', 'GPUs', 'Since', 'Until', ''], a.held.map(l => h('tr', {}, td(jobLink(l.number)), td(l.user), td(l.machine), td(l.gpus.map(g => g.index).join(', ')), td(ago(l.since, a.now)),
      td(l.until ?? 'without end'), td(h('button', { 'data-key': 'give-' + l.number, disabled: !mayAct(), onclick: () => act(`jobs/${l.number}/release-lease`) }, 'Give back'))))),
    a.silent.map(m => h('p', { class: 'warn' }, m + ' does not answer')),
    h('h2', {}, 'All'), table('All leases', ['Lease', 'User', 'State', 'GPUs', 'Machine', 'Asked'], a.leases.map(l => h('tr', {}, td(jobLink(l.id)), td(l.user), td(stateWord(l.state)), td(l.gpus), td(l.machine || '-'), td(ago(l.queued_at, a.now))))));
  },
};
