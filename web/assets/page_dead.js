import { button, get } from '/assets/api.js';
import { ago, empty, h, into, jobLink, table, td } from '/assets/dom.js';

export const page = {
  topics: () => ['jobs', 'events'],
  async show(place) {
    const a = await get('dead');
    into(place, h('p', { class: 'dim' }, 'Jobs that the system could not run, until somebody has dealt with them.'), table('Dead letters', ['Job', 'Name', 'User', 'When', 'Attempts', 'Why', ''], a.dead.map(d => h('tr', {}, td(jobLink(d.job), 'num'), td([d.name ?? '–', h('span', { class: 'sub' }, d.project)], 'wide'), td(d.user),
      td(ago(d.at, a.now), 'rest'), td(d.attempts, 'rest', 'attempts'), td([d.reason, d.evidence && h('span', { class: 'sub' }, d.evidence)], 'wide rest'), td([button('Retry', `jobs/${d.job}/retry`, { cls: 'small' }), ' ', button('Drop', `dead/${d.job}/drop`, { cls: 'small harm', confirm: `Drop the dead letter of ${d.job}?`, reason: true })]))),
      empty('No dead letters', 'Every job was run, or is waiting to be.'), 'fold'));
  },
};
