// REFLEX (Kassing, Dukic, Zhang and Singla, arXiv 2208.08429), algorithms 1 and 2, written from the paper for ns3.cc.
//
// All hosts share a clock, whose intervals make cycles of a warm-up, a measure and an exploit phase. A flexible flow calls
// Update at each boundary between two intervals and sends in the low class while IsLow.

#pragma once

#include <cstdint>
#include <optional>

struct ReflexCycle
{
    double intervalSeconds = 0.005;
    uint64_t warmup = 1;
    uint64_t measure = 1;
    uint64_t exploit = 3;
};

class Reflex
{
  public:
    // The flow must have at least `share` (alpha) of its fair rate, and `delivery` (r) of its bytes must arrive.
    Reflex(const ReflexCycle& cycle, double share, double delivery, double bytes)
        : m_cycle(cycle),
          m_share(share),
          m_bytes(bytes),
          m_deliveryBudget((1 - delivery) * bytes)
    {
    }

    // What was acknowledged in the time since the last boundary, or since the start; `next` is the interval that begins.
    void Update(uint64_t next, double acked, double seconds)
    {
        m_settled += acked;
        if (m_fairRate)
        {
            AdjustBudget(acked, seconds);
        }
        if (m_settled >= m_bytes)
        {
            m_finished = true;
            return;
        }
        if (m_phase == Phase::Measure && m_inStep)
        {
            m_probeBytes += acked;
            m_probeSeconds += seconds;
        }
        const Phase upcoming = PhaseOf(next);
        if (m_phase == Phase::Exploit && upcoming == Phase::Warmup)
        {
            m_inStep = true;
            m_low = false;
        }
        if (m_phase == Phase::Measure && upcoming == Phase::Exploit)
        {
            if (m_inStep)
            {
                m_fairRate = m_probeBytes / m_probeSeconds;
                m_probeBytes = m_probeSeconds = 0;
            }
            if (m_fairRate)
            {
                const double expense = m_share * *m_fairRate * m_cycle.exploit * m_cycle.intervalSeconds;
                m_low = m_rateBudget + m_deliveryBudget > expense;
            }
        }
        m_phase = upcoming;
    }

    bool IsLow() const
    {
        return m_low;
    }

    bool IsFinished() const
    {
        return m_finished;
    }

    // Bytes that need not be sent any more.
    double GivenUp() const
    {
        return m_givenUp;
    }

    // In bytes per second, once it was measured.
    std::optional<double> FairRate() const
    {
        return m_fairRate;
    }

  private:
    enum class Phase
    {
        None,
        Warmup,
        Measure,
        Exploit
    };

    Phase PhaseOf(uint64_t interval) const
    {
        const uint64_t place = interval % (m_cycle.warmup + m_cycle.measure + m_cycle.exploit);
        if (place < m_cycle.warmup)
        {
            return Phase::Warmup;
        }
        return place < m_cycle.warmup + m_cycle.measure ? Phase::Measure : Phase::Exploit;
    }

    // What the rate budget cannot cover is taken from the delivery budget, and given up.
    void AdjustBudget(double acked, double seconds)
    {
        m_rateBudget += acked - seconds * m_share * *m_fairRate;
        if (m_rateBudget >= 0)
        {
            return;
        }
        const double before = m_deliveryBudget;
        m_deliveryBudget += m_rateBudget;
        if (m_deliveryBudget >= 0)
        {
            m_rateBudget = 0;
        }
        else
        {
            m_rateBudget = m_deliveryBudget;
            m_deliveryBudget = 0;
        }
        m_givenUp += before - m_deliveryBudget;
        m_settled += before - m_deliveryBudget;
    }

    ReflexCycle m_cycle;
    double m_share;
    double m_bytes;
    double m_deliveryBudget;
    double m_rateBudget = 0;
    // Acknowledged or given up. The paper's listing counts only from the first fair rate on; a flow would then have to
    // settle more than it has.
    double m_settled = 0;
    double m_givenUp = 0;
    std::optional<double> m_fairRate;
    double m_probeBytes = 0;
    double m_probeSeconds = 0;
    // Since the first cycle that the flow sees from its beginning.
    bool m_inStep = false;
    bool m_low = false;
    bool m_finished = false;
    Phase m_phase = Phase::None;
};
