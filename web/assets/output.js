import { h, into } from '/assets/dom.js';
import { Terminal } from '/assets/terminal.js';

// output shows what a job prints, as it prints it.
export function output(place, id) {
  const log = h('pre', { id: 'log', tabindex: 0, role: 'log', 'aria-label': 'Output' });
  const follow = h('input', { type: 'checkbox', checked: true }), wrap = h('input', { type: 'checkbox', checked: true });
  const count = h('span', {}, 'waiting for output');
  wrap.addEventListener('change', () => log.classList.toggle('long', !wrap.checked));
  follow.addEventListener('change', () => follow.checked && down());
  log.addEventListener('wheel', e => { if (e.deltaY < 0) follow.checked = false; }, { passive: true });
  into(place, h('h2', {}, 'Output'), h('div', { class: 'log' }, h('div', { class: 'bar2' }, count, h('label', {}, follow, 'follow'), h('label', {}, wrap, 'wrap')), log));

  const down = () => { log.scrollTop = log.scrollHeight; };
  const source = new EventSource(`/api/v1/jobs/${encodeURIComponent(id)}/log`);
  let screen = new Terminal(log), attempt = 0;
  source.onopen = () => { log.replaceChildren(); screen = new Terminal(log); attempt = 0; };
  const show = () => { count.textContent = log.childElementCount === 1 ? '1 line' : `${log.childElementCount} lines`; if (follow.checked) down(); };
  source.addEventListener('log', e => {
    const p = JSON.parse(e.data);
    if (attempt && p.attempt !== attempt) screen.note(`attempt ${p.attempt}`);
    attempt = p.attempt;
    screen.write(p.text, p.stream === 'stderr' ? 'err' : '');
    show();
  });
  source.addEventListener('cut', e => { screen.note(JSON.parse(e.data).text); show(); });
  source.addEventListener('end', e => {
    source.close();
    const text = JSON.parse(e.data).text;
    if (text) screen.note(text);
    if (log.childElementCount) show(); else count.textContent = 'no output';
    log.dataset.ended = 'true';
  });
}
