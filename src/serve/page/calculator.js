// Arithmetic in exact fractions: + - * / and parentheses, as `baltoro chat --tools` computes it.
//   sum = product {(+|-) product};  product = factor {(*|/) factor};
//   factor = {+|-} (number | "(" sum ")")

const kMaxLength = 2000;
const kMaxDepth = 64;

function gcd(a, b) {
  while (b !== 0n) [a, b] = [b, a % b];
  return a < 0n ? -a : a;
}

function fraction(num, den) {
  const divisor = gcd(num, den) * (den < 0n ? -1n : 1n);
  return {num: num / divisor, den: den / divisor};
}

class Parser {
  #text;
  #position = 0;
  #depth = 0;

  constructor(text) {
    this.#text = text;
  }

  whole() {
    this.#skipSpace();
    const value = this.#sum();
    if (this.#position < this.#text.length) this.#bad('expected an operator or the end');
    return value;
  }

  #bad(what) {
    throw new Error(`${what} at position ${this.#position + 1} of "${this.#text}"`);
  }

  #skipSpace() {
    while (/[ \t]/.test(this.#text[this.#position] ?? '')) this.#position++;
  }

  #take(symbols) {
    const c = this.#text[this.#position];
    if (c === undefined || !symbols.includes(c)) return false;
    this.#position++;
    this.#skipSpace();
    return true;
  }

  #sum() {
    if (++this.#depth > kMaxDepth) this.#bad('too many parentheses');
    let value = this.#product();
    for (;;) {
      const sign = this.#take('+') ? 1n : this.#take('-−') ? -1n : 0n;
      if (sign === 0n) break;
      const right = this.#product();
      value = fraction(value.num * right.den + sign * right.num * value.den, value.den * right.den);
    }
    this.#depth--;
    return value;
  }

  #product() {
    let value = this.#factor();
    for (;;) {
      if (this.#take('*×')) {
        const right = this.#factor();
        value = fraction(value.num * right.num, value.den * right.den);
      } else if (this.#take('/÷')) {
        const right = this.#factor();
        if (right.num === 0n) this.#bad('division by zero before');
        value = fraction(value.num * right.den, value.den * right.num);
      } else {
        return value;
      }
    }
  }

  #factor() {
    let sign = 1n;
    for (;;) {
      if (this.#take('-−'))
        sign = -sign;
      else if (!this.#take('+'))
        break;
    }
    let value;
    if (this.#take('(')) {
      value = this.#sum();
      if (!this.#take(')')) this.#bad('expected )');
    } else {
      value = this.#number();
    }
    return {num: sign * value.num, den: value.den};
  }

  #number() {
    const match = /^(\d+\.?\d*|\.\d+)/.exec(this.#text.slice(this.#position));
    if (!match) this.#bad('expected a number');
    this.#position += match[0].length;
    this.#skipSpace();
    const [whole, decimals = ''] = match[0].split('.');
    return fraction(BigInt(whole + decimals), 10n ** BigInt(decimals.length));
  }
}

// Decimal where that ends, else "num/den".
function print({num, den}) {
  let rest = den;
  let digits = 0;
  let twos = 0;
  for (; rest % 2n === 0n; rest /= 2n) twos++;
  for (; rest % 5n === 0n; rest /= 5n) digits++;
  if (rest !== 1n) return `${num}/${den}`;
  digits = Math.max(digits, twos);
  if (digits === 0) return String(num);
  const magnitude = String((num < 0n ? -num : num) * 10n ** BigInt(digits) / den);
  const padded = magnitude.padStart(digits + 1, '0');
  return `${num < 0n ? '-' : ''}${padded.slice(0, -digits)}.${padded.slice(-digits)}`;
}

// The value as text. Throws an Error that says what is wrong and where.
export function evaluate(expression) {
  if (expression.length > kMaxLength) {
    throw new Error(`an expression of ${expression.length} characters; the limit is ${kMaxLength}`);
  }
  return print(new Parser(expression).whole());
}
