import { get } from '/assets/api.js';
import { chart, figure } from '/assets/chart.js';
import { bar, colourOf, empty, h, into, n, pick, table, td } from '/assets/dom.js';

const wish = { by: 'user', minutes: '1440' };
let made = null;
export const page = {
  topics: () => ['jobs'],
  pause: 1500,
  async show(place) {
    if (!made) {
      const again = key => v => { wish[key] = v; page.show(place); };
      made = { fig: figure('GPUs held', { 'data-chart': 'usage' }), list: h('div') };
      into(place, h('div', { class: 'tools filters' }, pick('by', 'By', ['user', 'project', 'machine'], wish.by, again('by')), pick('minutes', 'over', [['60', 'an hour'], ['360', '6 hours'], ['1440', 'a day'], ['10080', 'a week'], ['43200', '30 days']], wish.minutes, again('minutes'))), made.fig.all, h('h2', {}, 'GPU hours'), made.list);
    }
    const u = await get(`usage?by=${wish.by}&minutes=${wish.minutes}`);
    const owners = Object.keys(u.held).sort((a, b) => u.gpu_hours[b] - u.gpu_hours[a]), start = Date.parse(u.from) / 1000;
    made.fig.all.hidden = !owners.length;
    if (owners.length) {
      const times = u.held[owners[0]].map((_, i) => start + i * u.step_seconds);
      chart(made.fig.place, { times, lines: owners.map(o => ({ label: o, values: u.held[o], colour: colourOf(o) })), stacked: true });
      made.fig.place.setAttribute('aria-label', 'GPUs held over time; the table below has the sums');
    }
    const most = Math.max(...owners.map(o => u.gpu_hours[o]), 0);
    into(made.list, table('GPU hours', [wish.by[0].toUpperCase() + wish.by.slice(1), 'GPU hours', 'Part of the most'], owners.map(o => h('tr', {}, td(o), td(hours(u.gpu_hours[o]), 'num'), td(bar(u.gpu_hours[o], most, `GPU hours of ${o}`)))), empty('No GPU was held in this time')));
  },
};
const hours = v => v >= 10 ? n(v) : String(Math.round(v * 1000) / 1000);
