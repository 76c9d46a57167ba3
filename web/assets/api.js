export const mayAct = () => document.body.dataset.act === 'true';

export async function get(path) {
  const r = await fetch('/api/v1/' + path, { headers: { Accept: 'application/json' } });
  const body = await r.json();
  if (!r.ok) throw Object.assign(new Error(body.error), { status: r.status });
  return body;
}

export async function post(path, body) {
  const r = await fetch('/api/v1/' + path, { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Berth': '1' }, body: JSON.stringify(body ?? {}) });
  const answer = await r.json();
  if (!r.ok) throw new Error(answer.error);
  return answer;
}

export function say(text) {
  const e = document.getElementById('said');
  e.textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { e.textContent = ''; }, 6000);
}

// act does something and says how it went; without the token it says what is missing.
export async function act(path, body) {
  if (!mayAct()) return say('Actions need the token: open the address that berth dashboard printed.');
  try {
    say((await post(path, body)).text);
  } catch (e) {
    say(e.message);
  }
}
