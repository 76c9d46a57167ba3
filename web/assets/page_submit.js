import { mayAct, noToken, post } from '/assets/api.js';
import { h, into, jobLink } from '/assets/dom.js';

const example = 'name: hello\ncommand: [nvidia-smi]\nresources: {gpus: 1, gpu_memory: 8Gi}\ntime_limit: 10m\n';
let made = false;
export const page = {
  topics: () => [],
  async show(place) {
    if (made) return;
    made = true;
    const field = (name, label, note, attrs, cls) => h('label', { class: cls }, label, h('input', { name, autocomplete: 'off', ...attrs }), h('small', {}, note));
    const spec = h('textarea', { name: 'spec', rows: 12, 'aria-label': 'Spec, YAML or JSON', spellcheck: 'false', placeholder: example });
    const answer = h('p', { role: 'status', id: 'answer' });
    const send = async text => {
      if (!mayAct()) { answer.textContent = noToken; return; }
      answer.className = '';
      answer.textContent = 'sending';
      try {
        const { receipt } = await post('jobs', { spec: text });
        into(answer, [receipt].flat().map(r => h('span', {}, 'Job ', jobLink(String(r.number)), ' is queued. ')));
      } catch (e) { answer.className = 'bad'; answer.textContent = e.message; }
    };
    const form = h('form', { class: 'card', onsubmit: e => {
      e.preventDefault();
      const f = new FormData(form), s = { command: f.get('command'), resources: {} };
      for (const [from, to] of [['name', 'name'], ['project', 'project'], ['limit', 'time_limit'], ['workdir', 'workdir']]) if (f.get(from)) s[to] = f.get(from);
      if (f.get('gpus')) s.resources.gpus = Number(f.get('gpus'));
      if (f.get('memory')) s.resources.gpu_memory = f.get('memory');
      spec.value = JSON.stringify(s, null, 2);
      send(spec.value);
    } }, h('div', { class: 'fields' }, field('command', 'Command', 'as in a shell', { required: true }, 'all'), field('name', 'Name', 'what people will call it'), field('project', 'Project', 'empty: the default'), field('gpus', 'GPUs', '0: CPUs alone', { type: 'number', min: 0, value: 0 }), field('memory', 'Memory per GPU', 'such as 20Gi'), field('limit', 'Time limit', 'such as 2h'), field('workdir', 'Folder', 'on the machine that runs it')),
      h('div', { class: 'tools end' }, h('button', { class: 'first' }, 'Submit')));
    into(place, form, h('h2', {}, 'Or paste a spec'), spec, h('div', { class: 'tools end' }, h('button', { onclick: () => send(spec.value) }, 'Submit the spec')), answer);
  },
};
