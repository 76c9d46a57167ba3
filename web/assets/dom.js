// Everything a page shows goes through h(): texts become text nodes, so nothing a job says is ever markup.
export function h(tag, attrs, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs ?? {})) {
    if (v === undefined || v === null || v === false) continue;
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, v === true ? '' : v);
  }
  e.append(...children.flat(Infinity).filter(shows).map(c => c instanceof Node ? c : clean(String(c))));
  return e;
}
const shows = c => c !== null && c !== undefined && c !== false && c !== '';

// clean shows control characters and those that change the direction of text as what they are.
export const clean = s => s.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\uFFFD');

// into replaces what a place shows and leaves the focus where it was.
export function into(place, ...children) {
  const key = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  place.replaceChildren(...children.flat(Infinity).filter(shows));
  if (key) place.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

const num = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
export const n = v => v === undefined || v === null ? '–' : num.format(v);
export const gib = mb => mb >= 1024 ? num.format(mb / 1024) + ' GiB' : num.format(mb) + ' MiB';
export const plural = (count, one, many) => `${n(count)} ${count === 1 ? one : many ?? one + 's'}`;

export function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return (s || seconds <= 0 ? s : '<1') + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min' + (s < 600 && s % 60 ? ` ${s % 60} s` : '');
  if (s < 86400) return Math.floor(s / 3600) + ' h ' + Math.floor(s % 3600 / 60) + ' min';
  return Math.floor(s / 86400) + ' d ' + Math.floor(s % 86400 / 3600) + ' h';
}

const day = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium', hourCycle: 'h23' });
// ago is relative to the server's clock, which comes with every answer: the browser's may be wrong.
export const ago = (t, now) => t ? h('time', { datetime: t, title: day.format(new Date(t)) }, Date.parse(t) > Date.parse(now) + 999 ? 'in ' + span((Date.parse(t) - Date.parse(now)) / 1000) : span((Date.parse(now) - Date.parse(t)) / 1000) + ' ago') : '–';
export const ran = (r, now) => r.started_at ? span(((r.ended_at ? Date.parse(r.ended_at) : Date.parse(now)) - Date.parse(r.started_at)) / 1000) : '–';

export const pill = (state, text) => h('span', { class: 'pill ' + state }, text ?? state.replaceAll('_', ' '));
export const jobLink = id => h('a', { href: '/jobs/' + encodeURIComponent(id) }, id);
export const jobLinks = ids => ids.map((id, i) => [i ? ', ' : '', jobLink(id)]);

// bar is a part of a whole; its label says of what.
export function bar(value, max, label, cls = '') {
  const fill = h('i', { class: cls });
  fill.style.width = Math.min(100, max ? 100 * value / max : 0) + '%';
  return h('div', { class: 'bar', role: 'progressbar', 'aria-label': label, 'aria-valuemin': 0, 'aria-valuemax': max, 'aria-valuenow': Math.round(value * 10) / 10 }, fill);
}

export const meter = (title, value, max, text, kind = '', cls = '') => {
  const b = bar(value, max, title, cls);
  if (kind) b.classList.add(kind);
  return h('div', { class: 'meter' }, h('div', {}, h('span', {}, title), h('b', {}, text)), b);
};

const order = ['succeeded', 'failed', 'timeout', 'oom_gpu', 'oom_host', 'dead', 'cancelled', 'expired', 'running'];
// partsBar shows how many of a group's tasks are in which state.
export function partsBar(states, count, label) {
  const parts = [...order.filter(s => states[s]), ...Object.keys(states).filter(s => !order.includes(s))].map(s => [s, states[s]]).map(([s, c]) => { const i = h('i', { class: s }); i.style.width = 100 * c / count + '%'; return i; });
  return h('div', { class: 'bar parts', role: 'img', 'aria-label': label }, parts);
}

export const td = (v, cls, label) => h('td', { class: label && v === '–' ? cls + ' hide' : cls, 'data-label': label }, v ?? '–');
export const empty = (title, hint) => [h('strong', {}, title), hint];

// table makes a table; nothing: what it says where there are no rows.
export function table(caption, heads, rows, nothing = empty('Nothing here'), cls) {
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
    h('table', { class: cls }, h('thead', {}, h('tr', {}, heads.map(t => t instanceof Node ? t : h('th', { scope: 'col' }, t || h('span', { class: 'unseen' }, 'Actions'))))),
      h('tbody', {}, rows.length ? rows : h('tr', {}, h('td', { colspan: heads.length, class: 'empty' }, nothing)))));
}

export const facts = pairs => h('dl', {}, pairs.filter(([, v]) => shows(v)).map(([k, v]) => [h('dt', {}, k), h('dd', {}, v)]));

// pick is a choice with a label. values: [value, text] or a word that is both.
export function pick(key, label, values, now, chosen) {
  const s = h('select', { 'data-key': key, onchange: e => chosen(e.target.value) }, values.map(v => Array.isArray(v) ? h('option', { value: v[0] }, v[1]) : h('option', { value: v }, v)));
  s.value = now;
  return h('label', {}, label, s);
}

// colourOf gives every owner on a page a colour of its own, the same on each page for the same names.
const palette = ['#3b73e0', '#d97a1f', '#2f9e62', '#a950c7', '#d2453b', '#13959b', '#a3862b', '#7b83ea', '#c24d8b', '#5d7285'];
const given = new Map();
export function colourOf(name) {
  if (!given.has(name)) given.set(name, palette[given.size % palette.length]);
  return given.get(name);
}
export const colourAt = i => palette[i % palette.length];
