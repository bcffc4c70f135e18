// Vercel's AI SDK with both of its providers.
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenResponses } from '@ai-sdk/open-responses'
import { generateText, isStepCount, streamText, tool } from 'ai'
import { z } from 'zod'
import { assert, fails, run, target } from './checks.mjs'

globalThis.AI_SDK_LOG_WARNINGS = false

const sent = [] // bodies of requests
const fetch = async (url, init) => {
  sent.push(JSON.parse(init.body))
  return (target.fetch ?? globalThis.fetch)(url, init)
}
const openai = createOpenAI({ baseURL: target.baseURL, apiKey: 'unused', fetch })
const open = createOpenResponses({ name: 'holon', url: `${target.baseURL}/responses`, apiKey: 'unused', fetch })
const providers = { openai: (name) => openai.responses(name), 'open-responses': (name) => open(name) }

const quiet = { maxRetries: 0, onError() {} }

function checksOf(provider, isOpenAI) {
  const model = provider(target.model)
  const executed = []
  const tools = {
    get_weather: tool({
      description: 'Current weather of a city.',
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => {
        executed.push(city)
        return `${city} is sunny`
      },
    }),
  }
  const hello = (r) => {
    assert.equal(r.text, 'Hello, Ada.')
    assert.equal(r.finishReason, 'stop')
    assert.equal(r.reasoningText, 'A greeting is asked for.')
    assert.deepEqual([r.usage.inputTokens, r.usage.outputTokens, r.usage.totalTokens], [11, 7, 18])
    assert.deepEqual([r.usage.inputTokenDetails?.cacheReadTokens, r.usage.outputTokenDetails?.reasoningTokens], [3, 2])
  }
  // settle reads a stream to its end and gives it the shape of generateText.
  const settle = async (s) => {
    let text = '', reasoning = ''
    const parts = []
    for await (const part of s.stream ?? s.fullStream) {
      parts.push(part.type)
      if (part.type === 'text-delta') text += part.text
      if (part.type === 'reasoning-delta') reasoning += part.text
      if (part.type === 'error') throw part.error
    }
    return { text, reasoningText: reasoning, finishReason: await s.finishReason, usage: await s.usage, steps: await s.steps, parts }
  }
  return {
    async generateText() {
      hello(await generateText({ model, prompt: 'Say hello.', ...quiet }))
    },
    async streamText() {
      hello(await settle(streamText({ model, prompt: 'Say hello.', ...quiet })))
    },
    async 'several turns'() {
      const messages = [{ role: 'user', content: 'Say hello.' }]
      const first = await generateText({ model, messages, system: 'Be brief.', ...quiet })
      sent.length = 0
      const second = await generateText({
        model, messages: [...messages, ...(first.responseMessages ?? first.response.messages), { role: 'user', content: 'Say it again.' }], system: 'Be brief.', ...quiet,
      })
      assert.equal(second.text, 'You said then: Say it again.')
      // This provider sends what it believes to be stored by reference.
      const references = sent[0].input.filter((item) => item.type === 'item_reference')
      assert.equal(references.length > 0, isOpenAI, JSON.stringify(sent[0].input))
    },
    async 'several turns, nothing stored'() {
      const providerOptions = { openai: { store: false }, holon: { store: false } }
      const messages = [{ role: 'user', content: 'Say hello.' }]
      const first = await generateText({ model, messages, providerOptions, ...quiet })
      const second = await generateText({
        model, messages: [...messages, ...(first.responseMessages ?? first.response.messages), { role: 'user', content: 'Say it again.' }], providerOptions, ...quiet,
      })
      assert.equal(second.text, 'You said then: Say it again.')
    },
    async 'tools run by the client'() {
      executed.length = 0
      const r = await generateText({ model, prompt: 'Weather in Paris?', tools, stopWhen: isStepCount(3), ...quiet })
      assert.deepEqual(executed, ['Paris'])
      assert.deepEqual(r.steps.map((s) => s.finishReason), ['tool-calls', 'stop'])
      assert.equal(r.steps[0].text, 'Let me look.')
      assert.match(r.text, /^The weather: "?Paris is sunny"?\.$/)
    },
    async 'tools run by the client, streamed'() {
      executed.length = 0
      const r = await settle(streamText({ model, prompt: 'Weather in Paris?', tools, stopWhen: isStepCount(3), ...quiet }))
      assert.deepEqual(executed, ['Paris'])
      assert.match(r.text, /^Let me look\.The weather: "?Paris is sunny"?\.$/)
    },
    async 'parallel tools'() {
      executed.length = 0
      const r = await generateText({ model, prompt: 'Weather in Paris and Rome?', tools, stopWhen: isStepCount(3), ...quiet })
      assert.deepEqual(executed.sort(), ['Paris', 'Rome'])
      assert.match(r.text, /Rome is sunny/)
    },
    async 'container tools stay inside'() {
      executed.length = 0
      for (const r of [await generateText({ model, prompt: 'Test it.', tools, ...quiet }), await settle(streamText({ model, prompt: 'Test it.', tools, ...quiet }))]) {
        assert.equal(r.text, 'I test it.It works.')
        assert.equal(r.finishReason, 'stop')
      }
      assert.deepEqual(executed, [])
    },
    async 'both kinds of tools'() {
      executed.length = 0
      const r = await generateText({ model, prompt: 'Test it and ask for the weather.', tools, stopWhen: isStepCount(3), ...quiet })
      // It sends items again and has not seen the container's, so the model sees
      // the result of its own tool alone.
      assert.deepEqual([executed, r.text], [['Paris'], 'The weather: Paris is sunny.'])
    },
    async incomplete() {
      const r = await generateText({ model, prompt: 'Say much.', maxOutputTokens: 16, ...quiet })
      assert.deepEqual([r.text, r.finishReason], ['Much is', 'length'])
    },
    async failure() {
      const e = await fails(generateText({ model, prompt: 'Break.', ...quiet }))
      assert.match(e.message, /the model broke/)
    },
    async 'failure in a stream'() {
      const s = streamText({ model, prompt: 'Break in the middle.', ...quiet })
      let text = '', error
      for await (const part of s.stream ?? s.fullStream) {
        if (part.type === 'text-delta') text += part.text
        if (part.type === 'error') error = part.error
        if (part.type === 'finish') error ??= part.finishReason === 'error' ? 'finish' : undefined
      }
      assert.equal(text, 'Half of')
      assert.ok(error, 'no error came out')
    },
    async 'refused request'() {
      const e = await fails(generateText({ model: provider('scripted/nowhere'), prompt: 'Say hello.', ...quiet }))
      assert.equal(e.statusCode, 400)
      assert.match(e.message, /nowhere|model is not known/) // a host names no file of its own
    },
  }
}

const all = {}
for (const [name, provider] of Object.entries(providers)) {
  for (const [check, body] of Object.entries(checksOf(provider, name === 'openai'))) all[`${name}: ${check}`] = body
}
await run(all)
