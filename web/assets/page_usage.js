import { h, into } from '/assets/dom.js';
import { gpuTime } from '/assets/gputime.js';

let place = null;
export const page = {
  topics: () => ['jobs'],
  async show(content) {
    if (!place) into(content, place = h('div'));
    await gpuTime(place, 1440);
  },
};
