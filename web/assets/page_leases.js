import { button, get } from '/assets/api.js';
import { ago, empty, h, into, jobLink, pill, table, td } from '/assets/dom.js';

export const page = {
  topics: () => ['jobs', 'machines'],
  async show(place) {
    const a = await get('leases');
    into(place, h('h2', {}, 'Held now'), table('Held leases', ['Lease', 'User', 'Machine', 'GPUs', 'Since', 'Until', ''], a.held.map(l => h('tr', {}, td(jobLink(String(l.number)), 'num'), td(l.user), td(l.machine, 'rest', 'on'), td(l.gpus.map(g => g.index).join(', '), 'rest', 'GPUs'), td(ago(l.since, a.now), 'rest', 'since'),
      td(l.until ? ago(l.until, a.now) : 'without end', 'rest', 'until'), td(button('Give back', `jobs/${l.number}/release-lease`, { key: 'give-' + l.number, cls: 'small', confirm: `Give back the GPUs of lease ${l.number}, held by ${l.user}?`, reason: true })))),
      empty('No GPU is leased', 'berth lease get -g 1 --for 2h takes one for a person or a script.'), 'fold'),
    a.silent.map(m => h('p', { class: 'warn' }, m + ' does not answer; what is held there is not shown.')),
    h('h2', {}, 'All leases'), table('All leases', ['Lease', 'User', 'State', 'GPUs', 'Machine', 'Asked'], a.leases.map(l => h('tr', {}, td(jobLink(l.id), 'num'), td(l.user), td(pill(l.state)), td(l.gpus, 'num rest', 'GPUs'), td(l.machine || '–', 'rest', 'on'), td(ago(l.queued_at, a.now), 'rest', 'asked'))), empty('None yet'), 'fold'));
  },
};
