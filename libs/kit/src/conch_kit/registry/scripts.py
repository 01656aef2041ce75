"""The Lua scripts of the registry: what must happen at once in Redis, happens in one of these.

They use nothing newer than Redis 6.2. `READ` answers with the state of the list and, unless the caller already has
it, with what has changed since the revision that the caller has, or with the list itself. `PUBLISH` replaces the list,
writing only what differs; where it is the caller's own last one, the changes alone are sent. `WAKE` keeps the longer of
two wishes, `FORGET_WAKES` takes out what nobody has renewed.

What has changed is known back to the revision `since`, and only as long as `noted` is the list's own revision: a writer
of an older version notes nothing.
"""

NOTED_REVISIONS = 1000
"""A reader that is so many behind gets the whole list."""

READ = """
-- KEYS: meta, routes, changed.  ARGV: prefix of engine keys, epoch and revision that the caller has (empty: send all).
-- Answers {state}; {state, models}; or {state, what has changed, revision that the caller has}, where a model that went
-- is its id alone.
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'revision', 'models', 'noted', 'since')
local state = {meta[1] or '', meta[2] or '', meta[3] or ''}
local same = meta[1] and meta[1] == ARGV[2]
if same and meta[2] == ARGV[3] then return {state} end
local function engines(id)
  local key = ARGV[1] .. id
  if redis.call('TYPE', key).ok == 'hash' then return redis.call('HGETALL', key) end
  return {}
end
local models = {}
local have, since = tonumber(ARGV[3]), tonumber(meta[5] or '')
if same and have and since and have >= since and meta[4] == meta[2] and redis.call('TYPE', KEYS[3]).ok == 'hash' then
  local noted = redis.call('HGETALL', KEYS[3])
  for i = 1, #noted, 2 do
    if tonumber(noted[i + 1]) > have then
      local route = redis.call('HGET', KEYS[2], noted[i])
      if route then models[#models + 1] = {noted[i], route, engines(noted[i])} else models[#models + 1] = {noted[i]} end
    end
  end
  return {state, models, ARGV[3]}
end
local routes = redis.call('HGETALL', KEYS[2])
for i = 1, #routes, 2 do models[#models + 1] = {routes[i], routes[i + 1], engines(routes[i])} end
return {state, models}
"""

PUBLISH = """
-- KEYS: meta, routes, changed.  ARGV: prefix of engine keys, channel, fence, least revision, epoch for an empty Redis,
-- how many revisions are noted, number of models, epoch and revision of the list of which the changes are sent (empty:
-- all is sent), then for each model that is sent: id, route (empty: it goes), number of engines, and for each engine:
-- address, record. Answers {epoch, revision}; nothing where the changes are those of another list.
local function hash(key)
  local found = redis.call('TYPE', key).ok
  if found ~= 'hash' and found ~= 'none' then redis.call('DEL', key) end
  return key
end
local function fields(key)
  local flat, map = redis.call('HGETALL', hash(key)), {}
  for i = 1, #flat, 2 do map[flat[i]] = flat[i + 1] end
  return map
end
local meta = fields(KEYS[1])
local fence, least = tonumber(ARGV[3]), tonumber(ARGV[4])
local written = tonumber(meta.fence or '-1') or -1
if written > fence then return redis.error_reply('FENCED by ' .. written .. ', have ' .. fence) end
local all = ARGV[8] == ''
if not all and not (meta.epoch == ARGV[8] and meta.revision == ARGV[9] and meta.fence == ARGV[3]
  and redis.call('HLEN', hash(KEYS[2])) == tonumber(meta.models)) then return {} end
local routes = all and fields(KEYS[2]) or {}
local revision = tonumber(meta.revision or '')
local fresh = not revision or not string.find(meta.epoch or '', '^%w+$')
local epoch = meta.epoch
if fresh then
  epoch = ARGV[5]
  revision = math.max(tonumber(redis.call('TIME')[1]), least)
end
local changed, keep, i = {}, {}, 10
local function remove(id)
  redis.call('HDEL', KEYS[2], id)
  redis.call('DEL', ARGV[1] .. id)
  changed[#changed + 1] = id
end
while i <= #ARGV do
  local id, route, count = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  i = i + 3
  keep[id] = true
  if not all then routes[id] = redis.call('HGET', KEYS[2], id) end
  local differs = routes[id] ~= route
  if route == '' then
    remove(id)
    differs = false
  elseif differs then redis.call('HSET', KEYS[2], id, route) end
  local key = ARGV[1] .. id
  local before = fields(key)
  for _ = 1, count do
    local address, record = ARGV[i], ARGV[i + 1]
    i = i + 2
    if before[address] ~= record then
      redis.call('HSET', key, address, record)
      differs = true
    end
    before[address] = nil
  end
  for address in pairs(before) do
    redis.call('HDEL', key, address)
    differs = true
  end
  if differs then changed[#changed + 1] = id end
end
for id in pairs(routes) do
  if not keep[id] then remove(id) end
end
local news = fresh or #changed > 0 or revision < least or meta.models ~= ARGV[7]
if news then
  revision = math.max(revision + 1, least)
  local written_as = string.format('%.0f', revision)
  local since = tonumber(meta.since or '')
  if fresh or not since or meta.noted ~= meta.revision or redis.call('TYPE', KEYS[3]).ok ~= 'hash' then
    redis.call('DEL', KEYS[3])
    since = revision
  else
    since = math.max(since, revision - tonumber(ARGV[6]))
    for id, noted in pairs(fields(KEYS[3])) do
      if (tonumber(noted) or 0) < since then redis.call('HDEL', KEYS[3], id) end
    end
  end
  for _, id in ipairs(changed) do redis.call('HSET', KEYS[3], id, written_as) end
  redis.call('HSET', KEYS[1], 'epoch', epoch, 'revision', written_as, 'models', ARGV[7],
    'noted', written_as, 'since', string.format('%.0f', since))
end
if news or written ~= fence then redis.call('HSET', KEYS[1], 'fence', ARGV[3]) end
for _, id in ipairs(changed) do
  redis.call('PUBLISH', ARGV[2], cjson.encode({model = id, revision = revision}))
end
if news and #changed == 0 then redis.call('PUBLISH', ARGV[2], cjson.encode({revision = revision})) end
return {epoch, string.format('%.0f', revision)}
"""

WAKE = """
-- KEYS: wakes.  ARGV: model, until when in Unix seconds, 1 where nobody asks: Redis had lost it.
-- Answers until when the model shall be awake. An earlier wish that lasts as long or longer stands; it grows by a
-- millisecond where somebody asks, so that this shows.
local known, until_s = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0) or 0, ARGV[2]
if known >= tonumber(until_s) then
  if ARGV[3] == '1' then return string.format('%.3f', known) end
  until_s = string.format('%.3f', known + 0.001)
end
redis.call('HSET', KEYS[1], ARGV[1], until_s)
return until_s
"""

FORGET_WAKES = """
-- KEYS: wakes.  ARGV: models, each followed by the wish that was read and is over.
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then redis.call('HDEL', KEYS[1], ARGV[i]) end
end
"""
