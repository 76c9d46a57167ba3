import { get } from '/assets/api.js';
import { ago, h, into, jobLink, table, td } from '/assets/dom.js';

export const page = {
  topics: () => ['events'],
  async show(place) {
    const a = await get('audit');
    into(place, table('Events', ['When', 'What', 'By', 'Job', 'Machine', 'Text'], a.events.map(e => h('tr', {}, td(ago(e.at, a.now)), td(e.kind), td(e.by), td(e.job ? jobLink(e.job) : '-'), td(e.machine || '-'), td(e.text ?? '', 'wide')))));
  },
};
