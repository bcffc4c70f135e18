// What the programs of this directory share: they drive a server with a client
// and print a line of JSON a check, {"check", "error"}, and {"done": N} at the
// end.
//
//   node PROGRAM BASE_URL MODEL [SOCKET]
import assert from 'node:assert/strict'
import { Agent, fetch as undiciFetch } from 'undici'

const [baseURL, model, socket] = process.argv.slice(2)

// Over a Unix socket, both SDKs are given a fetch of their own.
const dispatcher = socket ? new Agent({ connect: { socketPath: socket } }) : undefined
const fetch = socket ? (url, init) => undiciFetch(url, { ...init, dispatcher }) : undefined

export const target = { baseURL, model, socket, fetch }

const patience = 60_000

// run runs checks, an object of async functions by name, one after the other.
export async function run(checks) {
  let done = 0
  for (const [check, body] of Object.entries(checks)) {
    let error, timer
    try {
      const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error('the check does not end')), patience)
      })
      await Promise.race([body(), late])
    } catch (e) {
      error = `${e?.stack ?? e}`.slice(0, 2000)
    } finally {
      clearTimeout(timer)
    }
    console.log(JSON.stringify({ check, error }))
    done++
  }
  console.log(JSON.stringify({ done }))
  process.exit(0)
}

// fails returns the error of a promise that must fail.
export async function fails(promise) {
  try {
    await promise
  } catch (e) {
    return e
  }
  assert.fail('it did not fail')
}

export { assert }
