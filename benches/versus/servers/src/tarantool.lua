-- A queue in one space, in the order in which tasks are taken, with a procedure for each verb.
--
--     tarantool tarantool.lua fsync|write priorities|groups|delays
--
-- Who has a task is known in memory only: a take is not in the log, and after a kill the task is
-- there again.

local clock = require('clock')
local fiber = require('fiber')

local wal_mode, grouped, delaying = arg[1], arg[2] == 'groups', arg[2] == 'delays'

box.cfg{
    wal_mode = wal_mode,
    -- No more than is used of it is taken. The default would be full with a million tasks.
    memtx_memory = 4 * 2^30,
    -- The largest task, as beanstalkd's, and its row.
    memtx_max_tuple_size = 2 * 2^20 + 1024,
    -- What a connection reads at once; tasks of 1 MiB are put twice as fast as with 16 KiB.
    readahead = 2^18,
    -- It would tell its makers about itself.
    feedback_enabled = false,
}

box.once('tasks', function()
    local space = box.schema.space.create('tasks', {
        format = {{'priority', 'unsigned'}, {'id', 'unsigned'}, {'task', 'string'}},
    })
    space:create_index('order', {type = 'tree', parts = {'priority', 'id'}})
    -- Who may open the socket may use the queue.
    box.schema.user.grant('guest', 'super')
end)

local tasks = box.space.tasks
local order = tasks.index.order

-- Held by a taker, or by a put that is not in the log yet: the priority, by id.
local held = {}
-- Nothing of a priority that is not held has a lower id.
local low = {}
for priority = 0, 255 do
    low[priority] = 0
end

local last = 0
do
    local task = order:min()
    while task ~= nil do
        last = math.max(last, order:max{task[1]}[2])
        task = order:select({task[1]}, {iterator = 'GT', limit = 1})[1]
    end
end

local NEXT = {iterator = 'GE', limit = 1}

-- The first task that is not held, of this priority or a later one.
local function first(priority)
    local id = low[priority]
    while true do
        local task = order:select({priority, id}, NEXT)[1]
        if task == nil then
            return nil
        end
        priority, id = task[1], task[2]
        if held[id] == nil then
            return task
        end
        id = math.max(id + 1, low[priority])
    end
end

local function hold(task)
    local priority, id = task[1], task[2]
    held[id] = priority
    low[priority] = id + 1
    return task
end

local to_take = fiber.cond()

-- What there is to take, and what follows from a task's being in the log, and from its having
-- left it.
local take_one, ready, gone

if grouped then
    -- A group stands where a priority does. While one of its tasks is taken, the others wait.
    local waiting, busy = {}, {}
    -- Groups that have tasks, none of them taken; who waits longest is first.
    local free, head, tail = {}, 1, 1

    local function set_free(group)
        free[tail] = group
        tail = tail + 1
        to_take:signal()
    end

    function ready(group)
        waiting[group] = (waiting[group] or 0) + 1
        if waiting[group] == 1 and not busy[group] then
            set_free(group)
        end
    end

    function take_one()
        local group = free[head]
        if group == nil then
            return nil
        end
        free[head] = nil
        head = head + 1
        waiting[group] = waiting[group] - 1
        busy[group] = true
        return hold(first(group))
    end

    function gone(group)
        busy[group] = nil
        if waiting[group] > 0 then
            set_free(group)
        end
    end
else
    function take_one()
        local task = first(0)
        return task and hold(task)
    end

    function ready()
        to_take:signal()
    end

    function gone() end
end

-- Tarantool syncs at once what came in one turn of its event loop, which is a request or two. So
-- what comes while a commit is running gathers, and the first of it commits for all. A change
-- that raises an error fails those that it gathered with.
local gathering
local committing = false
local committed = fiber.cond()

local function run(changes)
    for _, change in ipairs(changes) do
        change()
    end
end

local function commit(change)
    local group = gathering
    if group ~= nil then
        table.insert(group.changes, change)
        while not group.ended do
            group.end_of_it:wait()
        end
    else
        group = {changes = {change}, end_of_it = fiber.cond()}
        gathering = group
        while committing do
            committed:wait()
        end
        gathering = nil
        committing = true
        group.well, group.why = pcall(box.atomic, run, group.changes)
        committing = false
        committed:signal()
        group.ended = true
        group.end_of_it:broadcast()
    end
    if not group.well then
        error(group.why)
    end
end

-- A put holds its task until it is in the log, so that no consumer takes what may still fail.
local function insert(priority, task)
    last = last + 1
    held[last] = priority
    tasks:insert{priority, last, task}
    return last
end

local function let_go(id)
    local priority = held[id]
    held[id] = nil
    low[priority] = math.min(low[priority], id)
    ready(priority)
end

-- The row of a task that is held: its priority and id.
local function taken(id)
    return {held[id] or error('task ' .. id .. ' is not taken'), id}
end

local function forget(key)
    held[key[2]] = nil
    gone(key[1])
end

function put(priority, task)
    local id
    commit(function()
        id = insert(priority, task)
    end)
    let_go(id)
end

function take()
    return take_one()
end

function wait()
    local task = take_one()
    while task == nil do
        to_take:wait()
        task = take_one()
    end
    return task
end

function ack(id)
    local key = taken(id)
    commit(function()
        tasks:delete(key)
    end)
    forget(key)
end

-- Pairs of a priority and a task.
function put_many(batch)
    local ids = {}
    commit(function()
        for place, each in ipairs(batch) do
            ids[place] = insert(each[1], each[2])
        end
    end)
    for _, id in ipairs(ids) do
        let_go(id)
    end
end

function take_many(most)
    local rows = {}
    for place = 1, most do
        rows[place] = take_one()
        if rows[place] == nil then
            break
        end
    end
    return rows
end

function ack_many(ids)
    local keys = {}
    for place, id in ipairs(ids) do
        keys[place] = taken(id)
    end
    commit(function()
        for _, key in ipairs(keys) do
            tasks:delete(key)
        end
    end)
    for _, key in ipairs(keys) do
        forget(key)
    end
end

if delaying then
    -- What is not due, by when it is, in seconds.
    local delayed = box.schema.space.create('delayed', {
        if_not_exists = true,
        format = {
            {'due', 'number'}, {'id', 'unsigned'}, {'priority', 'unsigned'}, {'task', 'string'},
        },
    })
    local by_due = delayed:create_index('due', {
        if_not_exists = true, type = 'tree', parts = {'due', 'id'},
    })
    local is_put = fiber.cond()
    -- What one commit moves at most.
    local SWEEP = 1000

    local function promote(now)
        local due = {}
        for _, row in by_due:pairs() do
            if row[1] > now or #due == SWEEP then
                break
            end
            table.insert(due, row)
        end
        commit(function()
            for _, row in ipairs(due) do
                local at, id, priority, task = row:unpack()
                delayed:delete{at, id}
                held[id] = priority
                tasks:insert{priority, id, task}
            end
        end)
        for _, row in ipairs(due) do
            let_go(row[2])
        end
    end

    fiber.create(function()
        while true do
            local first, now = by_due:min(), clock.time()
            if first == nil then
                is_put:wait()
            elseif first[1] > now then
                is_put:wait(first[1] - now)
            else
                promote(now)
            end
        end
    end)

    -- Triples of when it is due, a priority and a task.
    function put_due(batch)
        commit(function()
            for _, each in ipairs(batch) do
                last = last + 1
                delayed:insert{each[1], last, each[2], each[3]}
            end
        end)
        is_put:signal()
    end
end

-- The log of a queue that ends well is not read again.
box.ctl.on_shutdown(box.snapshot)

-- Only now: who can connect finds everything.
box.cfg{listen = 'unix/:./socket'}
