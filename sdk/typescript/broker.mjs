// What a provider asks the broker. Names and values are those of the wire, which the guide's
// docs/guide/providers.md describes.

import { GrantError, LostError } from './errors.mjs';

const callerKey = 'io.cyanmycelium/caller';
const mostLifeMs = 60_000;

/** The reference of whoever sent a request, by the request's _meta; undefined if there is none. */
export function callerReferenceOf(meta) {
  const { ref, correlationId, traceId } = meta?.[callerKey] ?? {};
  const isText = (value) => typeof value === 'string' && value !== '';
  if (!isText(ref) || !isText(correlationId)) return undefined;
  return isText(traceId) ? { ref, correlationId, traceId } : { ref, correlationId };
}

/** Asks over whatever connection there is. */
export class Broker {
  #line;
  #settleWithinMs;
  #clockDifferenceMs;
  #until = new WeakMap(); // when grants expire, by performance.now()

  /** A line asks over the connection that is there, and tells when there is another. */
  constructor(line, { settleWithinMs = 30_000, clockDifferenceMs = 0 }) {
    this.#line = line;
    this.#settleWithinMs = settleWithinMs;
    this.#clockDifferenceMs = clockDifferenceMs;
  }

  async declare(declaration) {
    const accepted = await this.#again('broker/authorization/declare', declaration);
    this.#line.declaration = declaration;
    return accepted;
  }

  async authorize(query) {
    return (await this.#again('broker/authorize', query)).decisions;
  }

  async report(result) {
    await this.#line.ask('broker/audit/result', result);
  }

  async reserveBudget(query) {
    // The broker counts from some moment after this one, so a duration counted from here ends no
    // later than there, whatever the two clocks say.
    const asked = performance.now();
    const wall = Date.now();
    const grant = await this.#line.ask('broker/budget/reserve', query);
    const left = grant.expiresInMs ?? grant.expiresAt - this.#clockDifferenceMs - wall;
    this.#until.set(grant, asked + Math.min(left, mostLifeMs));
    return grant;
  }

  mayBegin(grant) {
    return performance.now() < (this.#until.get(grant) ?? -Infinity);
  }

  async settleBudget(settlement, { withinMs = Infinity } = {}) {
    await this.#again('broker/budget/settle', settlement, withinMs);
  }

  async withBudget(query, work) {
    const grant = await this.reserveBudget(query);
    if (grant.replayed) throw new GrantError('replayed');
    if (!this.mayBegin(grant)) throw new GrantError('expired');
    const settle = (result) => this.settleBudget({ reservationId: grant.reservationId, used: grant.quantity, result }, { withinMs: this.#settleWithinMs });
    let outcome;
    try {
      outcome = await work(grant);
    } catch (failure) {
      await settle('failure').catch(() => {}); // the work's own error is what counts
      throw failure;
    }
    await settle('success');
    return outcome;
  }

  // Asks until there is an answer, over as many connections as that takes. It is for what may be
  // asked twice.
  async #again(method, params, withinMs = Infinity) {
    const end = performance.now() + withinMs;
    for (;;) {
      const changed = this.#line.changed();
      try {
        return await this.#line.ask(method, params);
      } catch (error) {
        const left = end - performance.now();
        if (!(error instanceof LostError) || left <= 0) throw error;
        await Promise.race([changed, ...(left === Infinity ? [] : [after(left)])]);
      }
    }
  }
}

const after = (ms) => new Promise((resolve) => { setTimeout(resolve, ms).unref(); });
