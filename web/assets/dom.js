// Everything a page shows goes through h(): texts become text nodes, so nothing a job says is ever markup.
export function h(tag, attrs, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs ?? {})) {
    if (v === undefined || v === null || v === false) continue;
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, v === true ? '' : v);
  }
  e.append(...children.flat(Infinity).filter(c => c !== null && c !== undefined && c !== false).map(c => c instanceof Node ? c : clean(String(c))));
  return e;
}

// clean shows control characters and those that change the direction of text as what they are.
export const clean = s => s.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\uFFFD');

export const stateWord = s => h('span', { class: s }, s);
const num = new Intl.NumberFormat('en');
export const n = v => v === undefined || v === null ? '-' : num.format(Math.round(v * 10) / 10);

export function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return s + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min ' + (s % 60) + ' s';
  if (s < 86400) return Math.floor(s / 3600) + ' h ' + Math.floor(s % 3600 / 60) + ' min';
  return Math.floor(s / 86400) + ' d ' + Math.floor(s % 86400 / 3600) + ' h';
}

// ago is relative to the server's clock: now comes with every answer.
export const ago = (t, now) => t ? h('time', { datetime: t, title: t }, span((Date.parse(now) - Date.parse(t)) / 1000) + ' ago') : '-';
export const ran = (r, now) => r.started_at ? span(((r.ended_at ? Date.parse(r.ended_at) : Date.parse(now)) - Date.parse(r.started_at)) / 1000) : '-';

export function table(caption, heads, rows) {
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
    h('table', {}, h('thead', {}, h('tr', {}, heads.map(t => t instanceof Node ? t : h('th', { scope: 'col' }, t)))),
      h('tbody', {}, rows.length ? rows : h('tr', {}, h('td', { colspan: heads.length, class: 'dim' }, 'nothing here')))));
}
export const td = (v, cls) => h('td', { class: cls }, v ?? '-');
export const jobLink = id => h('a', { href: '/jobs/' + encodeURIComponent(id) }, id);

// into replaces what a place shows and leaves the focus where it was.
export function into(place, ...children) {
  const key = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  place.replaceChildren(...children.flat(Infinity).filter(Boolean));
  if (key) place.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}
