"""The Lua scripts of the registry: what must happen at once in Redis, happens in one of these.

They use nothing newer than Redis 6.2. `READ` answers with the state of the list and, unless the caller already has
it, the list itself. `PUBLISH` replaces the list, writing only what differs. `WAKE` keeps the longer of two wishes.
"""

READ = """
-- KEYS: meta, routes.  ARGV: prefix of engine keys, epoch and revision that the caller has (empty: send all).
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'revision', 'models')
local state = {meta[1] or '', meta[2] or '', meta[3] or ''}
if meta[1] and meta[1] == ARGV[2] and meta[2] == ARGV[3] then return {state} end
local routes = redis.call('HGETALL', KEYS[2])
local models = {}
for i = 1, #routes, 2 do
  local key = ARGV[1] .. routes[i]
  local engines = {}
  if redis.call('TYPE', key).ok == 'hash' then engines = redis.call('HGETALL', key) end
  models[#models + 1] = {routes[i], routes[i + 1], engines}
end
return {state, models}
"""

PUBLISH = """
-- KEYS: meta, routes.  ARGV: prefix of engine keys, channel, fence, least revision, epoch for an empty Redis,
-- number of models, then for each: id, route, number of engines, and for each engine: address, record.
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
local meta, routes = fields(KEYS[1]), fields(KEYS[2])
local fence, least = tonumber(ARGV[3]), tonumber(ARGV[4])
local written = tonumber(meta.fence or '-1') or -1
if written > fence then return redis.error_reply('FENCED by ' .. written .. ', have ' .. fence) end
local revision = tonumber(meta.revision or '')
local fresh = not revision or not string.find(meta.epoch or '', '^%w+$')
local epoch = meta.epoch
if fresh then
  epoch = ARGV[5]
  revision = math.max(tonumber(redis.call('TIME')[1]), least)
end
local changed, keep, i = {}, {}, 7
for _ = 1, tonumber(ARGV[6]) do
  local id, route, count = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  i = i + 3
  keep[id] = true
  local differs = routes[id] ~= route
  if differs then redis.call('HSET', KEYS[2], id, route) end
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
  if not keep[id] then
    redis.call('HDEL', KEYS[2], id)
    redis.call('DEL', ARGV[1] .. id)
    changed[#changed + 1] = id
  end
end
local news = fresh or #changed > 0 or revision < least or meta.models ~= ARGV[6]
if news then
  revision = math.max(revision + 1, least)
  redis.call('HSET', KEYS[1], 'epoch', epoch, 'revision', string.format('%.0f', revision), 'models', ARGV[6])
end
if news or written ~= fence then redis.call('HSET', KEYS[1], 'fence', ARGV[3]) end
for _, id in ipairs(changed) do
  redis.call('PUBLISH', ARGV[2], cjson.encode({model = id, revision = revision}))
end
if news and #changed == 0 then redis.call('PUBLISH', ARGV[2], cjson.encode({revision = revision})) end
return {epoch, string.format('%.0f', revision)}
"""

WAKE = """
-- KEYS: wakes.  ARGV: model, until when in Unix seconds. Answers until when the model shall be awake.
local known = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0) or 0
if known >= tonumber(ARGV[2]) then return string.format('%.0f', known) end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return ARGV[2]
"""
