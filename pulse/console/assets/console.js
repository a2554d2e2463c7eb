// Pulse console. The pages work without this: it keeps them up to date, and asks for confirmation in place.
'use strict';

(() => {
  const main = document.querySelector('main');
  const fresh = document.getElementById('freshness');

  // Changes one tree into another in place, so that focus, selection and what a screen reader is at stay.
  const morph = (from, to) => {
    if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName || from.id !== to.id) {
      from.replaceWith(to.cloneNode(true));
      return;
    }
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    if (from.isEqualNode(to)) return;
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && name !== 'open') from.removeAttribute(name);
    }
    for (const { name, value } of to.attributes) {
      if (from.getAttribute(name) !== value) from.setAttribute(name, value);
    }
    if (from === document.activeElement && from.matches('input, select, textarea')) return;
    // What has an ID is found by it, so that a section that appears moves the others and replaces none.
    const wanted = [...to.childNodes];
    wanted.forEach((child, i) => {
      const present = from.childNodes[i] || null;
      const same = child.id ? [...from.children].find((c) => c.id === child.id) : present && !present.id && present;
      if (!same) {
        from.insertBefore(child.cloneNode(true), present);
        return;
      }
      if (same !== present) from.insertBefore(same, present);
      morph(same, child);
    });
    while (from.childNodes.length > wanted.length) from.lastChild.remove();
  };

  // Live updates: while the page can be seen, and nobody has stopped them.
  const every = Number(main.dataset.live) * 1000;
  if (every) {
    let timer = 0, failures = 0, stopped = false;
    const toggle = document.createElement('button');
    toggle.type = 'button';
    toggle.className = 'plain';
    toggle.textContent = 'Stop updating';
    fresh.after(toggle);

    const plan = () => {
      clearTimeout(timer);
      if (!stopped && !document.hidden) timer = setTimeout(update, Math.min(every * 2 ** failures, 60000));
    };
    const update = async () => {
      try {
        const answer = await fetch(location.href, { headers: { Accept: 'text/html' }, credentials: 'same-origin', cache: 'no-store' });
        if (!answer.ok || answer.redirected) throw new Error(answer.status);
        const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
        const next = page.querySelector('main');
        if (!stopped && next) {
          morph(main, next);
          morph(fresh, page.getElementById('freshness'));
          document.title = page.title;
        }
        failures = 0;
        if (next && !next.dataset.live) { stopped = true; toggle.remove(); }
      } catch {
        failures = Math.min(failures + 1, 5);
        fresh.textContent = 'The console does not answer. Trying again.';
      }
      plan();
    };
    toggle.addEventListener('click', () => {
      stopped = !stopped;
      toggle.textContent = stopped ? 'Update again' : 'Stop updating';
      if (stopped) clearTimeout(timer); else update();
    });
    document.addEventListener('visibilitychange', () => { if (document.hidden) clearTimeout(timer); else if (!stopped) update(); });
    plan();
  }

  // A link that asks for confirmation opens its page in a dialog. If anything fails, it is a link again.
  document.addEventListener('click', async (event) => {
    const link = event.target.closest('a[data-confirm]');
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    try {
      const answer = await fetch(link.href, { headers: { Accept: 'text/html' }, credentials: 'same-origin', cache: 'no-store' });
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
      const form = page.getElementById('confirm');
      if (!answer.ok || !form) throw new Error();
      const dialog = document.createElement('dialog');
      dialog.setAttribute('aria-labelledby', 'confirm-title');
      dialog.append(document.adoptNode(form));
      document.body.append(dialog);
      dialog.addEventListener('close', () => { dialog.remove(); link.focus(); });
      dialog.querySelector('[data-back]').addEventListener('click', (e) => { e.preventDefault(); dialog.close(); });
      dialog.showModal();
    } catch {
      location.href = link.href;
    }
  });

  // A form that changes something is sent once.
  document.addEventListener('submit', (event) => {
    if (event.target.method !== 'post') return;
    if (event.target.dataset.sent) { event.preventDefault(); return; }
    event.target.dataset.sent = 'yes';
    event.target.querySelector('[type=submit]').setAttribute('aria-disabled', 'true');
  });
  window.addEventListener('pageshow', (event) => { if (event.persisted) location.reload(); });
})();
