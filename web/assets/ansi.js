// A terminal's escapes become colours, or nothing. The text of a log is never markup.
const escape = /\u001b\[([0-9;:<=>?]*)[ -/]*([@-~])|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[PX^_][^\u001b]*(?:\u001b\\)?|\u001b[@-Z\\-_]?|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export class Ansi {
  constructor() { this.classes = ''; }

  // nodes returns what a piece of a log shows.
  nodes(text) {
    const out = [];
    let at = 0;
    const put = part => {
      part = part.replace(/\r\n/g, '\n').replace(/[^\n]*\r(?!\n)/g, '');
      if (!part) return;
      if (!this.classes) { out.push(part); return; }
      const e = document.createElement('span');
      e.className = this.classes;
      e.textContent = part;
      out.push(e);
    };
    for (const m of text.matchAll(escape)) {
      put(text.slice(at, m.index));
      at = m.index + m[0].length;
      if (m[2] === 'm') this.style(m[1]);
    }
    put(text.slice(at));
    return out;
  }

  style(codes) {
    let bold = this.classes.includes('a1'), colour = /c\d/.exec(this.classes)?.[0] ?? '';
    for (const c of codes.split(';').map(Number)) {
      if (c === 0) { bold = false; colour = ''; }
      else if (c === 1) bold = true;
      else if (c === 22) bold = false;
      else if (c === 39) colour = '';
      else if (c >= 31 && c <= 36) colour = 'c' + (c - 30);
      else if (c >= 91 && c <= 96) colour = 'c' + (c - 90);
      else if (c === 38 || c === 48) break;
    }
    this.classes = [bold && 'a1', colour].filter(Boolean).join(' ');
  }
}
