// A menu of actions beside the button that opens it.
import {el, icon} from './dom.js';

function place(menu, button) {
  const at = button.getBoundingClientRect();
  const {width, height} = menu.getBoundingClientRect();
  menu.style.left = `${Math.max(8, Math.min(at.right - width, innerWidth - width - 8))}px`;
  menu.style.top = `${
      at.bottom + height + 8 > innerHeight ? Math.max(8, at.top - height - 4) : at.bottom + 4}px`;
}

// items: [{icon, label, action, danger}]. Arrow keys move, Escape closes and gives the focus back.
export function openMenu(button, items) {
  const menu = el('div.menu', {role: 'menu', popover: 'auto'});
  const choose = (item) => {
    menu.hidePopover();
    item.action();
  };
  menu.append(...items.map(
      (item) =>
          el(item.danger ? 'button.danger' : 'button',
             {type: 'button', role: 'menuitem', tabindex: '-1', onclick: () => choose(item)},
             icon(item.icon), item.label)));
  menu.addEventListener('keydown', (event) => {
    const buttons = [...menu.children];
    const at = buttons.indexOf(document.activeElement);
    const next = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1}[event.key];
    if (event.key === 'Tab') menu.hidePopover();
    if (next === undefined) return;
    event.preventDefault();
    buttons.at(next % buttons.length).focus();
  });
  menu.addEventListener('toggle', (event) => {
    if (event.newState !== 'closed') return;
    button.setAttribute('aria-expanded', 'false');
    if (menu.contains(document.activeElement)) button.focus();
    menu.remove();
  });
  button.after(menu);
  menu.showPopover();
  place(menu, button);
  button.setAttribute('aria-expanded', 'true');
  menu.firstElementChild.focus();
}
