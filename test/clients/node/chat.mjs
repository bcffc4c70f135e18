// Clients that speak Chat Completions: LangChain's chat model as it is by default, and Vercel's AI SDK when asked to.
import { createOpenAI } from '@ai-sdk/openai'
import { HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages'
import { tool as chainTool } from '@langchain/core/tools'
import { ChatOpenAI } from '@langchain/openai'
import { generateText, isStepCount, streamText, tool } from 'ai'
import { z } from 'zod'
import { assert, fails, run, target } from './checks.mjs'

globalThis.AI_SDK_LOG_WARNINGS = false

const sent = [] // paths of requests
const fetch = async (url, init) => {
  sent.push(new URL(url).pathname)
  return (target.fetch ?? globalThis.fetch)(url, init)
}
const chain = new ChatOpenAI({
  model: target.model, apiKey: 'unused', maxRetries: 0, configuration: { baseURL: target.baseURL, fetch },
})
const sdk = createOpenAI({ baseURL: target.baseURL, apiKey: 'unused', fetch }).chat(target.model)
const city = z.object({ city: z.string() })
const weather = chainTool(async ({ city }) => `${city} is sunny`,
  { name: 'get_weather', description: 'Current weather of a city.', schema: city })
const tools = {
  get_weather: tool({ description: 'Current weather of a city.', inputSchema: city, execute: async ({ city }) => `${city} is sunny` }),
}
const quiet = { maxRetries: 0, onError() {} }

const checks = {
  async 'LangChain: invoke'() {
    const answer = await chain.invoke([new SystemMessage('Be brief.'), new HumanMessage('Say hello.')])
    assert.equal(answer.text, 'Hello, Ada.')
    assert.deepEqual([answer.usage_metadata.input_tokens, answer.usage_metadata.output_tokens, answer.usage_metadata.total_tokens],
      [11, 7, 18])
    assert.equal(answer.response_metadata.finish_reason, 'stop')
  },
  async 'LangChain: stream'() {
    let whole
    for await (const chunk of await chain.stream('Say hello.')) whole = whole ? whole.concat(chunk) : chunk
    assert.equal(whole.text, 'Hello, Ada.')
    assert.equal(whole.usage_metadata.total_tokens, 18)
  },
  async 'LangChain: several turns'() {
    const messages = [new HumanMessage('Say hello.')]
    messages.push(await chain.invoke(messages), new HumanMessage('Say it again.'))
    assert.equal((await chain.invoke(messages)).text, 'You said then: Say it again.')
  },
  async 'LangChain: tools'() {
    const bound = chain.bindTools([weather])
    const messages = [new HumanMessage('Weather in Paris and Rome?')]
    const asked = await bound.invoke(messages)
    assert.deepEqual(asked.tool_calls.map((call) => call.args.city).sort(), ['Paris', 'Rome'])
    messages.push(asked)
    for (const call of asked.tool_calls) messages.push(await weather.invoke(call))
    assert.ok(messages.at(-1) instanceof ToolMessage)
    assert.match((await bound.invoke(messages)).text, /is sunny/)
  },
  async 'LangChain: tools, streamed'() {
    let whole
    for await (const chunk of await chain.bindTools([weather]).stream('Weather in Paris?')) whole = whole ? whole.concat(chunk) : chunk
    assert.equal(whole.text, 'Let me look.')
    assert.deepEqual(whole.tool_calls.map((call) => [call.name, call.args]), [['get_weather', { city: 'Paris' }]])
  },
  async 'LangChain: structured output'() {
    const form = z.object({ city: z.string(), degrees: z.number() })
    assert.deepEqual(await chain.withStructuredOutput(form, { method: 'jsonSchema' }).invoke('Answer in JSON.'), { city: 'Paris', degrees: 21 })
  },
  async 'LangChain: failure'() {
    assert.match((await fails(chain.invoke('Break.'))).message, /the model broke/)
  },
  async 'AI SDK: generateText'() {
    const r = await generateText({ model: sdk, prompt: 'Say hello.', ...quiet })
    assert.deepEqual([r.text, r.finishReason, r.usage.totalTokens], ['Hello, Ada.', 'stop', 18])
  },
  async 'AI SDK: streamText'() {
    const r = streamText({ model: sdk, prompt: 'Say hello.', ...quiet })
    let text = ''
    for await (const delta of r.textStream) text += delta
    assert.deepEqual([text, await r.finishReason], ['Hello, Ada.', 'stop'])
  },
  async 'AI SDK: tools run by the client'() {
    const r = await generateText({ model: sdk, prompt: 'Weather in Paris?', tools, stopWhen: isStepCount(3), ...quiet })
    assert.deepEqual(r.steps.map((s) => s.finishReason), ['tool-calls', 'stop'])
    assert.match(r.text, /^The weather: "?Paris is sunny"?\.$/)
  },
  async 'AI SDK: container tools stay inside'() {
    const r = await generateText({ model: sdk, prompt: 'Test it.', tools, ...quiet })
    assert.match(r.text, /It works\.$/)
    assert.equal(r.finishReason, 'stop')
  },
  async 'AI SDK: incomplete'() {
    const r = await generateText({ model: sdk, prompt: 'Say much.', maxOutputTokens: 16, ...quiet })
    assert.deepEqual([r.text, r.finishReason], ['Much is', 'length'])
  },
  async 'AI SDK: failure'() {
    assert.match((await fails(generateText({ model: sdk, prompt: 'Break.', ...quiet }))).message, /the model broke/)
  },
  async 'nothing but Chat Completions was asked for'() {
    assert.deepEqual([...new Set(sent)], ['/v1/chat/completions'])
  },
}

await run(checks)
