-- What scripts find in place of what Lua brings along. Runs in every machine before its script; `host` has what is not written in Lua.
local host = ...
local error, format, floor, ipairs, next, pcall, tostring, type =
  error, string.format, math.floor, ipairs, next, pcall, tostring, type

_VERSION = "Lua 5.1"
unpack = table.unpack
table.unpack, table.pack, rawlen = nil, nil, nil
table.getn = function(list) return #list end
function table.maxn(list)
  local most = 0
  for key in next, list do
    if type(key) == "number" and key > most then most = key end
  end
  return most
end
local log = math.log
math.mod = math.fmod
function math.log(number) return log(number) end
function math.log10(number) return log(number, 10) end
string.__index = string

-- Who catches an error must not catch the end of the time that a script has.
local function within(...)
  host.check()
  return ...
end

function _G.pcall(...) return within(pcall(...)) end

-- The handler runs behind the error, not inside of it: there the time would not be looked at.
local function handled(handler, fine, ...)
  host.check()
  if fine then return true, ... end
  return false, handler(...)
end
function xpcall(call, handler) return handled(handler, pcall(call)) end

function print() end

-- Whole numbers are written out, however large.
function _G.tostring(...)
  local value = ...
  if type(value) == "number" and value == floor(value) and value > -2 ^ 63 and value < 2 ^ 63 then
    return format("%d", value)
  end
  return tostring(...)
end

-- A merge in Lua, so that the time is looked at while it runs, whatever `before` says.
local function sort(list, before)
  before = before or function(a, b) return a < b end
  local length, from, to, width = #list, list, {}, 1
  while width < length do
    for left = 1, length, 2 * width do
      local i, middle = left, left + width
      local j, last = middle, left + 2 * width
      if middle > length + 1 then middle = length + 1 end
      if last > length + 1 then last = length + 1 end
      for k = left, last - 1 do
        if i < middle and (j >= last or not before(from[j], from[i])) then
          to[k], i = from[i], i + 1
        else
          to[k], j = from[j], j + 1
        end
      end
    end
    from, to, width = to, from, 2 * width
  end
  if from ~= list then
    for i = 1, length do list[i] = from[i] end
  end
end
table.sort = sort

-- Keys come in one order in every machine, so that the same facts give the same answer.
local function first(a, b)
  local one, other = type(a), type(b)
  if one ~= other then return one < other end
  return (one == "number" or one == "string") and a < b
end

function pairs(map)
  local keys, count, at = {}, 0, 0
  for key in next, map do
    count = count + 1
    keys[count] = key
  end
  sort(keys, first)
  return function()
    local key
    repeat
      at = at + 1
      key = keys[at]
    until key == nil or map[key] ~= nil
    if key ~= nil then return key, map[key] end
  end, map, nil
end

function _G.next(map, after)
  local found
  for key in next, map do
    if (after == nil or first(after, key)) and (found == nil or first(key, found)) then found = key end
  end
  if found ~= nil then return found, map[found] end
end

-- Numbers that look drawn, the same ones in every machine.
local seed = 1
function math.randomseed(number) seed = floor(number) % 2147483646 + 1 end
function math.random(low, high)
  seed = seed * 16807 % 2147483647
  local drawn = (seed - 1) / 2147483646
  if low == nil then return drawn end
  if high == nil then low, high = 1, low end
  if high < low then error("bad argument to random (interval is empty)", 2) end
  return floor(low + drawn * (high - low + 1))
end

string.find, string.match = host.find, host.match
function string.gmatch(text, pattern)
  local at = 1
  local function found(from, to, ...)
    if from == nil then return nil end
    at = to < from and from + 1 or to + 1
    return ...
  end
  return function() return found(host.scan(text, pattern, at)) end
end
string.gfind = string.gmatch

for _, name in ipairs { "gsub", "rep", "dump" } do
  string[name] = function()
    error("The Lua function string." .. name .. " is not supported by Karmada.", 2)
  end
end
for _, name in ipairs {
  "collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "module", "newproxy",
  "rawequal", "rawget", "rawset", "setfenv", "setmetatable",
} do
  _G[name] = function()
    error("call function " .. name .. " is not supported in karmada customized resourceinterpreter.", 2)
  end
end

os = { time = host.time, date = host.date }
package = {
  loaded = { _G = _G, kube = host.kube, math = math, os = os, string = string, table = table },
  loaders = {},
  preload = {},
  loadlib = function() error("loadlib is not supported", 2) end,
}
local package = package
package.loaded.package = package
function require(name)
  local module = package.loaded[name]
  if module ~= nil then return module end
  local load = package.preload[name]
  if load == nil then
    error("module " .. tostring(name) .. " not found:\n\tno field package.preload['" .. tostring(name) .. "'],", 2)
  end
  module = load(name)
  package.loaded[name] = module == nil and true or module
  return package.loaded[name]
end
