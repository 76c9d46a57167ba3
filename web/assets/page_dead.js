import { act, get, mayAct } from '/assets/api.js';
import { ago, h, into, jobLink, table, td } from '/assets/dom.js';

export const page = {
  topics: () => ['jobs', 'events'],
  async show(place) {
    const a = await get('dead');
    const button = (text, path) => h('button', { 'data-key': path, disabled: !mayAct(), onclick: () => act(path) }, text);
    into(place, h('p', {}, 'Jobs that the system could not run, until somebody has dealt with them.'), table('Dead letters', ['Job', 'Name', 'User', 'Project', 'When', 'Attempts', 'Why', ''], a.dead.map(d => h('tr', {}, td(jobLink(d.job)), td(d.name ?? '-', 'wide'), td(d.user), td(d.project),
      td(ago(d.at, a.now)), td(d.attempts), td([d.reason, d.evidence ? h('span', { class: 'dim' }, ' ' + d.evidence) : ''], 'wide'), td([button('Retry', `jobs/${d.job}/retry`), ' ', button('Drop', `dead/${d.job}/drop`)])))));
  },
};
