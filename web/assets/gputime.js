import { get } from '/assets/api.js';
import { chart, figure } from '/assets/chart.js';
import { h, n, table, td, into } from '/assets/dom.js';

const wish = { by: 'user', minutes: 60 };
let made = null;

// gpuTime draws GPUs over time, coloured by who holds them.
export async function gpuTime(place, minutes) {
  if (!made) {
    wish.minutes = minutes;
    const pick = (name, label, values) => {
      const s = h('select', { 'data-key': name, onchange: e => { wish[name] = e.target.value; gpuTime(place); } }, values.map(([v, t]) => h('option', { value: v }, t)));
      s.value = wish[name];
      return h('label', {}, label, ' ', s);
    };
    made = { fig: figure('GPUs held', { 'data-chart': 'gpus-time' }), list: h('div') };
    place.append(h('h2', {}, 'GPUs over time'), h('div', { class: 'tools' }, pick('by', 'Coloured by', [['user', 'user'], ['project', 'project'], ['machine', 'machine']]),
      pick('minutes', 'over', [[60, 'an hour'], [1440, 'a day'], [10080, 'a week'], [43200, '30 days']])), made.fig.all, made.list);
  }
  const u = await get(`usage?by=${wish.by}&minutes=${wish.minutes}`);
  const owners = Object.keys(u.held).sort(), start = Date.parse(u.from) / 1000;
  const times = (Object.values(u.held)[0] ?? [0, 0]).map((_, i) => start + i * u.step_seconds);
  if (owners.length) chart(made.fig.place, { times, lines: owners.map(o => ({ label: o, values: u.held[o] })), stacked: true });
  made.fig.place.setAttribute('aria-label', 'GPUs held over time; the table below has the sums');
  into(made.list, table('GPU-hours', [wish.by, 'GPU-hours'], owners.map(o => h('tr', {}, td(o), td(n(Math.round(u.gpu_hours[o] * 1000) / 1000) || '0')))));
}
