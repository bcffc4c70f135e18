// OpenAI's own client for Node.
import OpenAI from 'openai'
import { ResponsesWS } from 'openai/resources/responses/ws'
import { assert, fails, run, target } from './checks.mjs'

const { model } = target
const client = new OpenAI({ baseURL: target.baseURL, apiKey: 'unused', fetch: target.fetch })
const weather = {
  type: 'function', name: 'get_weather', strict: true,
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false },
}

function hello(r) {
  assert.equal(r.status, 'completed')
  assert.equal(r.output_text, 'Hello, Ada.')
  assert.deepEqual(r.output.map((item) => item.type), ['reasoning', 'message'])
  assert.equal(r.output[0].summary[0].text, 'A greeting is asked for.')
  assert.deepEqual(r.usage, {
    input_tokens: 11, output_tokens: 7, total_tokens: 18,
    input_tokens_details: { cached_tokens: 3 }, output_tokens_details: { reasoning_tokens: 2 },
  })
}

// collect reads a stream by its deltas.
async function collect(stream) {
  const got = { text: '', reasoning: '', args: '', numbers: [], types: new Set() }
  for await (const ev of stream) {
    got.numbers.push(ev.sequence_number)
    got.types.add(ev.type)
    got.last = ev.type
    if (ev.type === 'response.created') got.id = ev.response.id
    if (ev.type === 'response.output_text.delta') got.text += ev.delta
    if (ev.type === 'response.reasoning_summary_text.delta') got.reasoning += ev.delta
    if (ev.type === 'response.function_call_arguments.delta') got.args += ev.delta
    if (ev.response) got.response = ev.response
  }
  return got
}

async function ended(r) {
  while (r.status === 'queued' || r.status === 'in_progress') {
    await new Promise((resolve) => setTimeout(resolve, 20))
    r = await client.responses.retrieve(r.id)
  }
  return r
}

async function socketTurns(f) {
  const ws = new ResponsesWS(client)
  ws.on('error', () => {}) // the iterator has it too
  const events = ws.stream()
  const turn = async (event) => {
    ws.send({ type: 'response.create', model, store: false, ...event })
    // Not for await, which would end the iterator with the first turn.
    for (let next = await events.next(); !next.done; next = await events.next()) {
      const m = next.value
      if (m.type === 'error') return { error: m.error }
      if (m.type === 'close') assert.fail(`closed: ${m.code} ${m.reason}`)
      if (m.type === 'message' && /^response\.(completed|failed|incomplete)$/.test(m.message.type)) return m.message.response
    }
    assert.fail('the events have ended')
  }
  try {
    await f(turn)
  } finally {
    ws.close()
  }
}

const text = (r) => (r.output ?? assert.fail(JSON.stringify(r))).flatMap((item) => item.content ?? []).map((part) => part.text).join('')

const checks = {
  async create() {
    hello(await client.responses.create({ model, input: 'Say hello.' }))
  },
  async stream() {
    const got = await collect(await client.responses.create({ model, input: 'Say hello.', stream: true }))
    assert.equal(got.text, 'Hello, Ada.')
    assert.equal(got.reasoning, 'A greeting is asked for.')
    assert.deepEqual(got.numbers, got.numbers.map((_, i) => i))
    assert.equal(got.last, 'response.completed')
    assert.equal(got.response.id, got.id)
  },
  async '.stream() helper'() {
    const stream = client.responses.stream({ model, input: 'Say hello.' })
    let deltas = ''
    stream.on('response.output_text.delta', (ev) => { deltas = ev.snapshot })
    hello(await stream.finalResponse())
    assert.equal(deltas, 'Hello, Ada.')
  },
  async '.stream() helper with tools'() {
    const r = await client.responses.stream({ model, input: 'Weather in Paris?', tools: [weather] }).finalResponse()
    assert.deepEqual(r.output.at(-1).arguments, '{"city":"Paris"}')
  },
  async '.parse() helper'() {
    const r = await client.responses.parse({
      model, input: 'Answer in JSON.',
      text: { format: { type: 'json_schema', name: 'answer', strict: true, schema: {
        type: 'object', properties: { city: { type: 'string' }, degrees: { type: 'number' } }, required: ['city', 'degrees'], additionalProperties: false } } },
    })
    assert.deepEqual(JSON.parse(r.output_text), { city: 'Paris', degrees: 21 })
  },
  async continue() {
    const first = await client.responses.create({ model, input: 'Say hello.' })
    const second = await client.responses.create({ model, input: 'Say it again.', previous_response_id: first.id })
    assert.equal(second.output_text, 'You said then: Say it again.')
    assert.equal(second.previous_response_id, first.id)
  },
  async 'continue with all items'() {
    const first = await client.responses.create({ model, input: 'Say hello.', store: false })
    const second = await client.responses.create({
      model, store: false, input: [{ role: 'user', content: 'Say hello.' }, ...first.output, { role: 'user', content: 'Say it again.' }],
    })
    assert.equal(second.output_text, 'You said then: Say it again.')
  },
  async 'tool round trip'() {
    const first = await client.responses.create({ model, input: 'Weather in Paris?', tools: [weather] })
    assert.equal(first.output_text, 'Let me look.')
    const call = first.output.at(-1)
    assert.deepEqual([call.type, call.name, call.call_id, call.arguments], ['function_call', 'get_weather', 'call_weather', '{"city":"Paris"}'])
    const second = await client.responses.create({
      model, tools: [weather], previous_response_id: first.id, input: [{ type: 'function_call_output', call_id: call.call_id, output: '21 degrees' }],
    })
    assert.equal(second.output_text, 'The weather: 21 degrees.')
  },
  async 'parallel tools'() {
    const first = await client.responses.create({ model, input: 'Weather in Paris and Rome?', tools: [weather] })
    const calls = first.output.filter((item) => item.type === 'function_call')
    assert.deepEqual(calls.map((c) => c.call_id), ['call_paris', 'call_rome'])
    const second = await client.responses.create({
      model, tools: [weather], previous_response_id: first.id, input: calls.map((c) => ({ type: 'function_call_output', call_id: c.call_id, output: `${c.call_id} is sunny` })),
    })
    assert.equal(second.output_text, 'The weather: call_rome is sunny.')
  },
  async 'container tools stay inside'() {
    const got = await collect(await client.responses.create({ model, input: 'Test it.', stream: true }))
    assert.equal(got.text, 'I test it.It works.')
    assert.deepEqual(got.response.output.map((item) => item.type), ['message', 'message'])
    assert.ok(![...got.types].some((type) => type.startsWith('holon:')))
  },
  async 'both kinds of tools'() {
    const first = await client.responses.create({ model, input: 'Test it and ask for the weather.', tools: [weather] })
    assert.deepEqual(first.output.map((item) => item.call_id), ['call_outside'])
    const second = await client.responses.create({
      model, tools: [weather], previous_response_id: first.id, input: [{ type: 'function_call_output', call_id: 'call_outside', output: '21 degrees' }],
    })
    assert.equal(second.output_text, 'It works.')
  },
  async incomplete() {
    const r = await client.responses.create({ model, input: 'Say much.', max_output_tokens: 16 })
    assert.deepEqual([r.status, r.incomplete_details.reason, r.output_text], ['incomplete', 'max_output_tokens', 'Much is'])
  },
  async refusal() {
    const r = await client.responses.create({ model, input: 'Refuse.' })
    assert.equal(r.output[0].content[0].refusal, 'I will not.')
  },
  async failure() {
    const e = await fails(client.responses.create({ model, input: 'Break.' }))
    assert.ok(e instanceof OpenAI.APIError, String(e))
    assert.equal(e.code, 'model_says_no')
    assert.match(e.message, /the model broke/)
  },
  async 'failure in a stream'() {
    const got = await collect(await client.responses.create({ model, input: 'Break in the middle.', stream: true }))
    assert.deepEqual([got.text, got.last, got.response.status], ['Half of', 'response.failed', 'failed'])
    assert.match(got.response.error.message, /the model broke/)
  },
  async 'refused request'() {
    for (const stream of [false, true]) {
      const e = await fails(client.responses.create({ model, input: 'Go on.', previous_response_id: 'resp_nowhere', stream }))
      assert.deepEqual([e.status, e.code, e.param], [404, 'previous_response_not_found', 'previous_response_id'])
      assert.ok(e.requestID)
    }
  },
  async retrieve() {
    const r = await client.responses.create({ model, input: 'Say hello.' })
    const got = await client.responses.retrieve(r.id, { include: ['reasoning.encrypted_content'] })
    hello(got)
    assert.equal(got.id, r.id)
  },
  async 'retrieve as a stream'() {
    const r = await client.responses.create({ model, input: 'Say hello.' })
    const got = await collect(await client.responses.retrieve(r.id, { stream: true }))
    assert.deepEqual([got.text, got.last, got.id], ['Hello, Ada.', 'response.completed', r.id])
  },
  async 'background and poll'() {
    const r = await client.responses.create({ model, input: 'Count.', background: true })
    assert.ok(['queued', 'in_progress'].includes(r.status), r.status)
    const end = await ended(r)
    assert.deepEqual([end.status, end.output_text], ['completed', '1 2 3 4 5'])
  },
  async 'resume with starting_after'() {
    const stream = await client.responses.create({ model, input: 'Count.', background: true, stream: true })
    let id, last, text = ''
    for await (const ev of stream) {
      last = ev.sequence_number
      if (ev.type === 'response.created') id = ev.response.id
      if (ev.type === 'response.output_text.delta') text += ev.delta
      if (text.length >= 3) break
    }
    const rest = await collect(await client.responses.retrieve(id, { stream: true, starting_after: last }))
    assert.equal(rest.numbers[0], last + 1)
    assert.deepEqual([text + rest.text, rest.last], ['1 2 3 4 5', 'response.completed'])
  },
  async '.stream() helper resumes'() {
    const r = await client.responses.create({ model, input: 'Count.', background: true })
    const final = await client.responses.stream({ response_id: r.id, starting_after: 3 }).finalResponse()
    assert.equal(final.output_text, '1 2 3 4 5')
  },
  async cancel() {
    const r = await client.responses.create({ model, input: 'Count for long.', background: true })
    for (let i = 0; i < 2; i++) assert.equal((await client.responses.cancel(r.id)).status, 'cancelled')
  },
  async delete() {
    const r = await client.responses.create({ model, input: 'Say hello.' })
    await client.responses.delete(r.id)
    assert.equal((await fails(client.responses.retrieve(r.id))).status, 404)
  },
  async input_items() {
    const texts = ['One.', 'Two.', 'Say hello.']
    const r = await client.responses.create({ model, input: texts.map((content) => ({ role: 'user', content })) })
    const got = []
    for await (const item of client.responses.inputItems.list(r.id, { limit: 2, order: 'asc' })) {
      assert.ok(item.id)
      got.push(item.content[0].text)
      if (got.length > 6) break
    }
    assert.deepEqual(got, texts)
  },
  async models() {
    const list = await client.models.list()
    assert.ok(list.data.length > 0)
  },
  async websocket() {
    await socketTurns(async (turn) => {
      const first = await turn({ input: 'Say hello.' })
      assert.equal(text(first), 'Hello, Ada.')
      const second = await turn({ input: 'Say it again.', previous_response_id: first.id })
      assert.equal(text(second), 'You said then: Say it again.')
    })
  },
  async 'websocket error'() {
    await socketTurns(async (turn) => {
      const refused = await turn({ input: 'Go on.', previous_response_id: 'resp_nowhere' })
      assert.ok(refused.error, JSON.stringify(refused))
      assert.equal(text(await turn({ input: 'Say hello.' })), 'Hello, Ada.')
    })
  },
  async compact() {
    const first = await client.responses.create({ model, input: 'Say hello.' })
    const got = await client.responses.compact({ model, previous_response_id: first.id })
    assert.equal(got.object, 'response.compaction')
    assert.equal(got.output.at(-1).type, 'compaction')
    const next = await client.responses.create({ model, input: [...got.output, { role: 'user', content: 'Say it again.' }] })
    assert.equal(next.status, 'completed')
  },
  async input_tokens() {
    const got = await client.responses.inputTokens.count({ model, input: 'How many tokens are these?' })
    assert.equal(got.object, 'response.input_tokens')
    assert.ok(got.input_tokens > 0)
  },
}
if (target.socket) { // its WebSockets know no Unix sockets
  delete checks.websocket
  delete checks['websocket error']
}
await run(checks)
