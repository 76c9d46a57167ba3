import { h } from '/assets/dom.js';

export const mayAct = () => document.body.dataset.act === 'true';

async function answerOf(r) {
  const body = await r.json().catch(() => ({ error: `the dashboard answered ${r.status} ${r.statusText}` }));
  if (!r.ok) throw Object.assign(new Error(body.error), { status: r.status });
  return body;
}

export const get = async path => answerOf(await fetch('/api/v1/' + path, { headers: { Accept: 'application/json' } }));
export const post = async (path, body) => answerOf(await fetch('/api/v1/' + path, { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Berth': '1' }, body: JSON.stringify(body ?? {}) }));

export function say(text) {
  const e = document.getElementById('said');
  e.textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { e.textContent = ''; }, 6000);
}

export const noToken = 'Actions need the token: open the address that berth up or berth dashboard printed.';

// act does something and says how it went.
async function act(path, body) {
  try {
    say((await post(path, body)).text);
  } catch (e) {
    say(e.message);
  }
}

// button does something when it is pressed. confirm: what it asks first; reason: it asks why, for the audit log.
export function button(text, path, { body, confirm, reason, cls, key } = {}) {
  return h('button', { 'data-key': key ?? path + text, class: cls, disabled: !mayAct(), title: mayAct() ? undefined : noToken,
    onclick: () => confirm ? ask(text, confirm, reason, why => act(path, { ...body, reason: why })) : act(path, body) }, text);
}

function ask(verb, text, reason, go) {
  const why = h('input', { name: 'reason', autocomplete: 'off', maxlength: 200 });
  const d = h('dialog', { 'aria-labelledby': 'asked' }, h('form', { method: 'dialog', onsubmit: e => { if (e.submitter?.value === 'yes') go(why.value); } },
    h('h2', { id: 'asked' }, text), reason && h('label', {}, 'Why, for the others (may be empty)', why),
    h('div', { class: 'tools end' }, h('button', { value: 'no', type: 'button', onclick: () => d.close() }, 'Leave it'), h('button', { value: 'yes', class: 'first' }, verb))));
  d.addEventListener('close', () => d.remove());
  document.body.append(d);
  d.showModal();
}
