// Terminal shows a job's output as a terminal would: colours, and lines that write over themselves (progress bars). What it
// does not know it leaves out. The text of a log is never markup: it becomes text nodes.
const escape = /\u001b\[([0-9;:<=>?]*)[ -/]*([@-~])|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[PX^_][^\u001b]*(?:\u001b\\)?|\u001b[@-Z\\-_=>]?|[\r\n]|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const linesMost = 5000;
const basic = ['#5c6773', '#f07178', '#7fd19b', '#e6c07b', '#6cb6ff', '#d2a8ff', '#56d4dd', '#d7dee6'];
const bright = ['#8b96a2', '#ff8f87', '#9be9b0', '#ffd98a', '#9accff', '#e2c5ff', '#86e8ef', '#ffffff'];

export class Terminal {
  constructor(place) { this.place = place; this.style = {}; this.line = null; this.over = false; }

  // write shows a piece; pieces may end anywhere, even within an escape.
  write(text, cls) {
    text = (this.rest ?? '') + text;
    const open = /\u001b(?:\[[0-9;:<=>? -/]*)?$/.exec(text);
    this.rest = open ? open[0] : '';
    if (open) text = text.slice(0, open.index);
    let at = 0;
    for (const m of text.matchAll(escape)) {
      this.put(text.slice(at, m.index), cls);
      at = m.index + m[0].length;
      if (m[0] === '\n') this.end(cls);
      else if (m[0] === '\r') this.over = true;
      else if (m[2] === 'm') this.sgr(m[1]);
      else if (m[2] === 'K' && this.line && this.over) this.line.replaceChildren();
    }
    this.put(text.slice(at), cls);
  }

  note(text) { this.end(); this.place.append(Object.assign(document.createElement('div'), { className: 'note', textContent: text })); this.line = null; }

  end(cls) {
    if (!this.line && cls !== undefined) this.start(cls);
    this.line = null;
    this.over = false;
  }

  start(cls) {
    this.line = document.createElement('div');
    if (cls) this.line.className = cls;
    this.place.append(this.line);
    if (this.place.childElementCount > linesMost) this.place.firstElementChild.remove();
  }

  put(text, cls) {
    if (!text) return;
    if (!this.line) this.start(cls);
    if (this.over) { this.line.replaceChildren(); this.over = false; }
    const s = this.style;
    if (!s.classes && !s.fg && !s.bg) { this.line.append(text); return; }
    const e = document.createElement('span');
    e.textContent = text;
    if (s.classes) e.className = s.classes;
    if (s.fg) e.style.color = s.fg;
    if (s.bg) e.style.backgroundColor = s.bg;
    this.line.append(e);
  }

  sgr(codes) {
    const s = this.style, list = codes.split(/[;:]/).map(Number), on = new Set(s.classes?.split(' '));
    for (let i = 0; i < list.length; i++) {
      const c = list[i];
      if (c === 0) { on.clear(); s.fg = s.bg = undefined; }
      else if (c >= 1 && c <= 4) on.add('b' + (c - 1));
      else if (c === 22) { on.delete('b0'); on.delete('b1'); }
      else if (c === 23 || c === 24) on.delete('b' + (c - 21));
      else if (c >= 30 && c <= 37) s.fg = basic[c - 30];
      else if (c >= 90 && c <= 97) s.fg = bright[c - 90];
      else if (c >= 40 && c <= 47) s.bg = basic[c - 40] + '66';
      else if (c >= 100 && c <= 107) s.bg = bright[c - 100] + '66';
      else if (c === 39) s.fg = undefined;
      else if (c === 49) s.bg = undefined;
      else if (c === 38 || c === 48) {
        const [colour, used] = wide(list.slice(i + 1));
        s[c === 38 ? 'fg' : 'bg'] = colour;
        i += used;
      }
    }
    s.classes = [...on].filter(Boolean).join(' ');
  }
}

// wide reads a colour of 256 or of all.
function wide([kind, a, b, c]) {
  if (kind === 2) return [`rgb(${a & 255} ${b & 255} ${c & 255})`, 4];
  if (kind !== 5) return [undefined, 1];
  if (a < 8) return [basic[a], 2];
  if (a < 16) return [bright[a - 8], 2];
  if (a >= 232) return [`rgb(${(a - 232) * 10 + 8} ${(a - 232) * 10 + 8} ${(a - 232) * 10 + 8})`, 2];
  const step = v => v ? v * 40 + 55 : 0, i = a - 16;
  return [`rgb(${step(Math.floor(i / 36))} ${step(Math.floor(i / 6) % 6)} ${step(i % 6)})`, 2];
}
