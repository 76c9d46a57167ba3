import { button, get, mayAct, noToken, post, say } from '/assets/api.js';
import { ago, empty, h, into, jobLink, pill, table, td } from '/assets/dom.js';

// take asks for a lease as the command lease get does: a job that runs nothing and holds GPUs.
function take() {
  const field = (name, label, attrs) => h('label', {}, label, h('input', { name, autocomplete: 'off', ...attrs }));
  const form = h('form', { class: 'tools filters', 'aria-label': 'Take GPUs', onsubmit: async e => {
    e.preventDefault();
    const f = new FormData(form);
    try {
      const { receipt } = await post('jobs', { spec: JSON.stringify({ kind: 'lease', name: f.get('name') || 'lease', resources: { gpus: Number(f.get('gpus')) }, lease: { for: f.get('for') } }) });
      say(`lease ${[receipt].flat()[0].number} is asked for; it is held as soon as the GPUs are free`);
    } catch (problem) { say(problem.message); }
  } }, field('gpus', 'GPUs', { type: 'number', min: 1, value: 1, required: true, size: 4 }), field('for', 'For', { value: '2h', required: true, size: 6 }), field('name', 'What for', { placeholder: 'notebook' }),
  h('button', { disabled: !mayAct(), title: mayAct() ? undefined : noToken }, 'Take GPUs'));
  return form;
}

let made = null;
export const page = {
  topics: () => ['jobs', 'machines'],
  async show(place) {
    const a = await get('leases');
    if (!made) into(place, take(), made = h('div'));
    into(made, h('h2', {}, 'Held now'), table('Held leases', ['Lease', 'User', 'Machine', 'GPUs', 'Since', 'Until', ''], a.held.map(l => h('tr', {}, td(jobLink(String(l.number)), 'num'), td(l.user), td(l.machine, 'rest', 'on'), td(l.gpus.map(g => g.index).join(', '), 'rest', 'GPUs'), td(ago(l.since, a.now), 'rest', 'since'),
      td(l.until ? ago(l.until, a.now) : 'without end', 'rest', 'until'), td(button('Give back', `jobs/${l.number}/release-lease`, { key: 'give-' + l.number, cls: 'small', confirm: `Give back the GPUs of lease ${l.number}, held by ${l.user}?`, reason: true })))),
      empty('No GPU is leased', 'berth lease get -g 1 --for 2h takes one for a person or a script.'), 'fold'),
    a.silent.map(m => h('p', { class: 'warn' }, m + ' does not answer; what is held there is not shown.')),
    h('h2', {}, 'All leases'), table('All leases', ['Lease', 'User', 'State', 'GPUs', 'Machine', 'Asked'], a.leases.map(l => h('tr', {}, td(jobLink(l.id), 'num'), td(l.user), td(pill(l.state)), td(l.gpus, 'num rest', 'GPUs'), td(l.machine || '–', 'rest', 'on'), td(ago(l.queued_at, a.now), 'rest', 'asked'))), empty('None yet'), 'fold'));
  },
};
