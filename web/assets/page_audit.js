import { get } from '/assets/api.js';
import { ago, empty, h, into, jobLink, table, td } from '/assets/dom.js';

export const page = {
  topics: () => ['events'],
  async show(place) {
    const a = await get('audit');
    into(place, table('Events', ['When', 'What', 'By', 'Job', 'Machine', 'Text'], a.events.map(e => h('tr', {}, td(ago(e.at, a.now), 'rest'), td(h('strong', {}, e.kind)), td(e.by), td(e.job ? jobLink(e.job) : '–', e.job ? 'rest' : 'rest hide', 'job'), td(e.machine || '–', e.machine ? 'rest' : 'rest hide', 'on'), td(e.text ?? '', 'wide rest'))),
      empty('Nothing has happened yet', 'Who cancels, drains, quarantines or retries is written down here.'), 'fold'));
  },
};
