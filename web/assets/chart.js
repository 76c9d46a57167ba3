import uPlot from '/assets/vendor/uplot/uPlot.esm.js';
import { h } from '/assets/dom.js';

const strokes = ['#2d7fd3', '#d9822b', '#2e9e54', '#b04fc4', '#d0443b', '#159a9c', '#8d6e3f', '#7a86e8'];
export const colour = i => strokes[i % strokes.length];
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// chart draws lines of values at times (seconds) in an element; draw it again with other data and it moves on.
// lines: [{label, values}]. The points are the element's .plot.data, as they came.
export function chart(place, { times, lines, unit, max, stacked, linear }) {
  const key = JSON.stringify(lines.map(l => l.label));
  const data = [times, ...lines.map(l => l.values)];
  const shown = stacked ? stack(data) : data;
  if (place.plot && place.dataset.lines === key) { place.plot.setData(shown); return; }
  place.plot?.destroy();
  place.dataset.lines = key;
  const axis = { stroke: css('--fg'), grid: { stroke: css('--line'), width: 1 }, ticks: { stroke: css('--line') } };
  place.plot = new uPlot({
    width: Math.max(240, place.clientWidth), height: 220, scales: { x: { time: !linear }, y: max ? { range: [0, max] } : { range: (u, lo, hi) => [0, Math.max(1, hi * 1.1)] } },
    axes: [axis, { ...axis, size: 56, values: (u, ticks) => ticks.map(t => t + (unit ?? '')) }],
    series: [{}, ...lines.map((l, i) => ({
      label: l.label, stroke: colour(i), width: linear ? 0 : 2, spanGaps: false, fill: stacked ? colour(i) + '66' : undefined,
      points: linear ? { show: true, size: 8, fill: colour(i) } : { show: times.length < 3 }, value: (u, v, s, at) => at == null ? '-' : round(data[s][at]) + (unit ?? ''),
    }))],
    bands: stacked ? lines.slice(1).map((_, i) => ({ series: [i + 2, i + 1] })) : undefined,
  }, shown, place);
  new ResizeObserver(() => place.clientWidth && place.plot.setSize({ width: Math.max(240, place.clientWidth), height: 220 })).observe(place);
}

const round = v => v === null || v === undefined ? '-' : Math.round(v * 100) / 100;

function stack([times, ...lines]) {
  const sum = times.map(() => 0);
  return [times, ...lines.map(l => l.map((v, i) => sum[i] += v ?? 0))];
}

export function figure(title, attrs) {
  const place = h('div', { role: 'img', 'aria-label': title, ...attrs });
  return { place, all: h('figure', {}, h('figcaption', {}, title), place) };
}
