import { expect, test } from "vitest";
import { Restarts } from "../src/restarts.js";

test("waits longer each time, then gives up", () => {
  const restarts = new Restarts();
  const delays = [];
  for (let i = 0; i < 6; i++) {
    restarts.started(1000 * i);
    delays.push(restarts.stopped(1000 * i + 10).delayMs);
  }
  expect(delays).toEqual([500, 1000, 2000, 4000, 8000, undefined]);
});

test("only the first stop of a row is worth telling", () => {
  const restarts = new Restarts();
  restarts.started(0);
  expect(restarts.stopped(1)).toEqual({ delayMs: 500, first: true, stops: 1 });
  expect(restarts.stopped(2)).toEqual({ delayMs: 1000, first: false, stops: 2 });
});

test("a steady run or a reset starts a new row", () => {
  const restarts = new Restarts();
  restarts.started(0);
  restarts.stopped(10);
  restarts.started(100);
  expect(restarts.stopped(100 + 60_001)).toEqual({ delayMs: 500, first: true, stops: 1 });
  restarts.reset();
  restarts.started(200_000);
  expect(restarts.stopped(200_001).first).toBe(true);
});
