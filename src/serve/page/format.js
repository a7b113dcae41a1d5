// Numbers as the page writes them.

const kCount = new Intl.NumberFormat('en');

export function count(number) {
  return kCount.format(number);
}

export function duration(ms) {
  const seconds = ms / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(seconds < 0.995 ? 2 : 1)} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

// The measures of an answer (turn_stream.js), as far as they are known.
export function statsParts(stats) {
  const parts = [];
  const about = stats.exact ? '' : '≈ ';
  if (stats.tokensPerSecond !== null) {
    const rate = stats.tokensPerSecond;
    parts.push(`${about}${rate < 9.95 ? rate.toFixed(1) : count(Math.round(rate))} tokens/s`);
  }
  if (stats.firstTokenMs !== null) parts.push(`first token ${duration(stats.firstTokenMs)}`);
  if (stats.tokens > 0)
    parts.push(`${about}${count(stats.tokens)} ${stats.tokens === 1 ? 'token' : 'tokens'}`);
  if (stats.promptTokens !== null && stats.reusedTokens !== null) {
    parts.push(`${count(stats.reusedTokens)} of ${count(stats.promptTokens)} prompt tokens reused`);
  }
  return parts;
}

const kDay = 24 * 60 * 60 * 1000;

// The heading under which a conversation is listed.
export function dayGroup(time, now) {
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  if (time >= midnight) return 'Today';
  if (time >= midnight - kDay) return 'Yesterday';
  if (time >= midnight - 6 * kDay) return 'This week';
  return 'Earlier';
}
