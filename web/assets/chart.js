import uPlot from '/assets/vendor/uplot/uPlot.esm.js';
import { colourAt, h } from '/assets/dom.js';

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const height = 190;

// chart draws lines of values at times (seconds) in an element; draw it again with other data and it moves on.
// lines: [{label, values, colour}]. The points as they were measured are the element's .points: [times, ...values].
export function chart(place, { times, lines, unit = '', max, stacked, linear, sync }) {
  const key = JSON.stringify([lines.map(l => l.label), css('--fg'), times.length < 3]);
  place.points = [times, ...lines.map(l => l.values)];
  const shown = stacked ? stack(place.points) : place.points;
  if (place.plot && place.dataset.lines === key) { place.plot.setData(shown, !zoomed(place.plot)); return; }
  place.plot?.destroy();
  place.dataset.lines = key;
  const axis = { stroke: css('--dim'), font: '11px Inter, sans-serif', grid: { stroke: css('--grid'), width: 1 }, ticks: { show: false } };
  const value = (u, v, s, at) => {
    const all = place.points[s], i = at ?? all.findLastIndex(x => x !== null);
    return all[i] === null || all[i] === undefined ? '–' : round(all[i]) + unit;
  };
  place.plot = new uPlot({
    width: Math.max(240, place.clientWidth), height, cursor: sync ? { sync: { key: sync } } : {},
    scales: { x: linear ? { time: false } : { time: true, range: some }, y: max ? { range: [0, max] } : { range: (u, lo, hi) => [0, Math.max(1, hi * 1.12)] } },
    axes: [linear ? { ...axis, size: 28 } : { ...axis, size: 28, space: 70, values: (u, ticks) => place.ticks = clock(u, ticks) }, { ...axis, size: 52, values: (u, ticks) => ticks.map(t => round(t) + unit) }],
    series: [{ value: (u, v) => v === null ? '' : linear ? String(round(v)) : clock(u, [v])[0] }, ...lines.map((l, i) => {
      const stroke = l.colour ?? colourAt(i);
      return { label: l.label, stroke, width: 1.8, spanGaps: Boolean(linear), fill: stacked ? stroke + '73' : undefined, value, points: linear || times.length < 3 ? { show: true, size: 7, fill: stroke } : { show: false } };
    })],
    bands: stacked ? lines.slice(1).map((_, i) => ({ series: [i + 2, i + 1] })) : undefined,
  }, shown, place);
  place.watch ??= new ResizeObserver(() => place.clientWidth && place.plot.setSize({ width: Math.max(240, place.clientWidth), height }));
  place.watch.observe(place);
}

const round = v => Math.abs(v) >= 100 ? Math.round(v) : Math.round(v * 100) / 100;
const zoomed = u => { const t = u.data[0]; return u.scales.x.min > t[0] || u.scales.x.max < t.at(-1); };

// some makes room around a single time: the library would show the whole day that follows it.
const some = (u, lo, hi) => { const t = u.data[0]; return t.length && t[0] === t.at(-1) ? [t[0] - 5, t[0] + 5] : [lo, hi]; };

// clock labels times of day, with seconds or a date where those tell ticks apart; what says the same twice is said once.
function clock(u, ticks) {
  const apart = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
  const f = new Intl.DateTimeFormat('en-GB', apart >= 86400 ? { day: 'numeric', month: 'short' } : { hour: '2-digit', minute: '2-digit', second: apart < 60 ? '2-digit' : undefined, hourCycle: 'h23' });
  return ticks.map(t => f.format(new Date(t * 1000))).map((text, i, all) => text === all[i - 1] ? '' : text);
}

function stack([times, ...lines]) {
  const sum = times.map(() => 0);
  return [times, ...lines.map(l => l.map((v, i) => sum[i] += v ?? 0))];
}

export function figure(title, attrs, note) {
  const place = h('div', { role: 'img', 'aria-label': title, ...attrs });
  return { place, all: h('figure', {}, h('figcaption', {}, title, note && h('span', {}, ' ' + note)), place) };
}
