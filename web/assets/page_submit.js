import { mayAct, post } from '/assets/api.js';
import { h, into, jobLink } from '/assets/dom.js';

let made = false;
export const page = {
  topics: () => [],
  async show(place) {
    if (made) return;
    made = true;
    const field = (name, label, attrs) => h('label', {}, label, h('input', { name, ...attrs }));
    const spec = h('textarea', { name: 'spec', rows: 12, 'aria-label': 'Spec, YAML or JSON', spellcheck: 'false' });
    const answer = h('p', { role: 'status', id: 'answer' });
    const send = async text => {
      if (!mayAct()) { answer.textContent = 'Submitting needs the token: open the address that berth dashboard printed.'; return; }
      answer.textContent = 'sending';
      try {
        const { receipt } = await post('jobs', { spec: text });
        into(answer, [receipt].flat().map(r => h('span', {}, 'job ', jobLink(r.number), ' is queued. ')));
      } catch (e) { answer.textContent = e.message; }
    };
    const form = h('form', { class: 'filters', onsubmit: e => {
      e.preventDefault();
      const f = new FormData(form), s = { command: f.get('command'), resources: {} };
      if (f.get('name')) s.name = f.get('name');
      if (f.get('gpus')) s.resources.gpus = Number(f.get('gpus'));
      if (f.get('memory')) s.resources.gpu_memory = f.get('memory');
      if (f.get('limit')) s.time_limit = f.get('limit');
      if (f.get('workdir')) s.workdir = f.get('workdir');
      spec.value = JSON.stringify(s, null, 2);
      send(spec.value);
    } }, field('command', 'Command, as in a shell', { required: true, size: 40 }), field('name', 'Name'), field('gpus', 'GPUs', { type: 'number', min: 0, value: 0 }), field('memory', 'Memory per GPU, such as 20Gi'), field('limit', 'Time limit, such as 2h'), field('workdir', 'Folder'), h('button', {}, 'Submit'));
    into(place, form, h('h2', {}, 'Or a spec'), spec, h('div', { class: 'tools' }, h('button', { onclick: () => send(spec.value) }, 'Submit the spec')), answer);
  },
};
