// Runs before the first paint, so that a chosen theme does not flash. The switch is in
// theme_switch.js.
try {
  const theme = JSON.parse(localStorage.getItem('baltoro.theme'));
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // Nothing is kept: the system decides.
}
