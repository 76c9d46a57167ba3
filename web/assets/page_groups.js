import { get } from '/assets/api.js';
import { ago, empty, h, into, jobLink, partsBar, pill, table, td } from '/assets/dom.js';

export const page = {
  topics: () => ['jobs'],
  async show(place) {
    const a = await get('jobs?kind=group&limit=100');
    into(place, table('Groups', ['Group', 'Name', 'State', 'Tasks', 'Progress', 'User', 'Queued'], a.jobs.map(j => h('tr', { 'data-job': j.id }, td(jobLink(j.id), 'num'), td([h('a', { href: '/jobs/' + j.id }, j.name), h('span', { class: 'sub' }, j.project)], 'wide'),
      td(pill(j.state)), td(`${j.tasks.ended} of ${j.tasks.count}`, 'rest', 'ended'), td([Object.entries(j.tasks.states).map(([s, c]) => `${c} ${s.replaceAll('_', ' ')}`).join(', ') || 'none yet', partsBar(j.tasks.states, j.tasks.count, `${j.tasks.ended} of ${j.tasks.count} tasks of ${j.id} have ended`)], 'rest'),
      td(j.user, 'rest', 'by'), td(ago(j.queued_at, a.now), 'rest', 'queued'))), empty('No groups yet', 'submit --array 1-150 -- … or --param lr=0.1,0.01 makes one.'), 'fold'));
  },
};
