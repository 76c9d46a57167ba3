// The shell of every page: it finds the page's module, listens to the server and lets the page read again.
const body = document.body;
const content = document.getElementById('content');
const live = document.getElementById('live');
const alert = document.getElementById('alert');
const { page } = await import(`/assets/page_${body.dataset.page}.js`);

let busy = false, again = false, cut = false;
async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  try {
    do { again = false; await page.show(content, body.dataset.id); } while (again);
    body.dataset.shown = 'true';
  } catch (e) {
    if (e.status === 404 || e.status === 400) { content.textContent = e.message; body.dataset.shown = 'true'; }
    else if (e.status === 401) location.reload();
    else if (!cut) tell('This page could not be read again: ' + e.message);
  } finally { busy = false; }
}

function tell(text) { if (alert.textContent !== text) alert.textContent = text; }

let timer = 0;
function soon() {
  if (!timer) timer = setTimeout(() => { timer = 0; if (document.visibilityState === 'visible') refresh(); }, page.pause ?? 400);
}
document.addEventListener('visibilitychange', () => { if (document.visibilityState === 'visible') soon(); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', soon); // charts are drawn in its colours

function badge(name, count) {
  const b = document.querySelector(`[data-count=${name}]`);
  if (b) b.textContent = count ? String(count) : '';
}

const source = new EventSource('/api/v1/events');
source.addEventListener('beat', e => {
  const b = JSON.parse(e.data);
  const was = cut;
  cut = Boolean(b.broker);
  tell(cut ? 'The broker does not answer. This is what was known last; the page goes on by itself when it is back.' : '');
  live.textContent = cut ? 'cut off' : b.loaded ? `${b.counts.running} running, ${b.counts.queued} queued` : 'loading';
  badge('jobs', b.counts.running + b.counts.queued);
  body.dataset.live = cut ? 'cut' : 'live';
  const mine = page.topics(body.dataset.id);
  if (was !== cut || b.topics.some(t => mine.includes(t))) soon();
});
source.onerror = () => {
  cut = true;
  body.dataset.live = 'cut';
  live.textContent = 'cut off';
  tell('The dashboard does not answer. The page goes on by itself when it is back.');
};
await refresh();
if (page.every) setInterval(soon, page.every);
