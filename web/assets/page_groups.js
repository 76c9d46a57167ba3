import { get } from '/assets/api.js';
import { ago, h, into, jobLink, stateWord, table, td } from '/assets/dom.js';

export const page = {
  topics: () => ['jobs'],
  async show(place) {
    const a = await get('jobs?kind=group&limit=100');
    into(place, table('Groups', ['Group', 'Name', 'State', 'Ended', 'Progress', 'Tasks', 'User', 'Queued'], a.jobs.map(j => h('tr', { 'data-job': j.id }, td(jobLink(j.id)), td(j.name, 'wide'), td(stateWord(j.state)), td(`${j.tasks.ended} of ${j.tasks.count}`),
      td(h('progress', { max: j.tasks.count, value: j.tasks.ended, 'aria-label': `Tasks of ${j.id} that have ended` })), td(Object.entries(j.tasks.states).map(([s, c]) => `${c} ${s}`).join(', ') || '-'), td(j.user), td(ago(j.queued_at, a.now))))));
  },
};
